package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/bytesize"
	"slipway/registry/internal/maintenance"
	"slipway/registry/internal/maintenance/retention"
	"slipway/shared/command"
	"slipway/shared/plural"
)

// newRetentionCommand returns the `registry retention` command, which shows or applies the
// retention rules of the configuration.
func newRetentionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retention",
		Short: "Show or delete the tags that the rules select for deletion",
	}
	cmd.AddCommand(newRetentionPlanCommand(), newRetentionApplyCommand())
	return cmd
}

func newRetentionPlanCommand() *cobra.Command {
	var asJSON, all, trustDates bool
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what the rules would delete, why, and the bytes to free",
		Long: "Shows each tag that storage.maintenance.retention would delete now, the rule and the reason. It changes nothing. " +
			"The bytes are those of manifests and blobs that nothing else needs, each counted once; garbage collection with deleteuntagged frees them.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return planRetention(cmd, all, trustDates, asJSON) },
	}
	command.JSONFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&all, "all", false, "also show why each other tag is kept")
	cmd.Flags().BoolVar(&trustDates, "trust-dates", false, trustDatesUsage)
	return cmd
}

func planRetention(cmd *cobra.Command, all, trustDates, asJSON bool) error {
	return onStorage(cmd, audit.Record{}, func(e *environment) error {
		plan, err := retention.Make(cmd.Context(), e.retention(all, trustDates))
		if err != nil {
			return err
		}
		return command.Report(cmd, asJSON, plan, func(out io.Writer) error { return printPlan(out, plan) })
	})
}

func newRetentionApplyCommand() *cobra.Command {
	var asJSON, trustDates, dryRun bool
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Delete the tags that the rules select for deletion",
		Long:  "Deletes the tags that `registry retention plan` shows, whether or not storage.maintenance.retention is enabled. A registry may serve meanwhile; a tag pushed meanwhile stays.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dryRun {
				return planRetention(cmd, false, trustDates, asJSON)
			}
			if err := command.Confirm(cmd, "Delete the tags that `registry retention plan` shows?"); err != nil {
				return err
			}
			return onStorage(cmd, commandAct(cmd), func(e *environment) error { return e.applyRetention(cmd, asJSON, trustDates) })
		},
	}
	command.JSONFlag(cmd, &asJSON)
	command.DryRunFlag(cmd, &dryRun)
	command.YesFlag(cmd)
	cmd.Flags().BoolVar(&trustDates, "trust-dates", false, trustDatesUsage)
	return cmd
}

const trustDatesUsage = "judge tags without a push record by the dates in the storage, even if a copy or restore seems to have changed them"

func (e *environment) retention(all, trustDates bool) retention.Options {
	return retention.Options{
		Store: e.Store, Registry: e.Registry, Pulls: e.Pulls, All: all, TrustDates: trustDates,
		Rules: maintenance.RetentionRules(e.Config.Storage.Maintenance.Retention.Rules),
	}
}

func (e *environment) applyRetention(cmd *cobra.Command, asJSON, trustDates bool) error {
	o := e.retention(false, trustDates)
	o.Deleted = func(v *retention.Verdict) { writeOperator(e.auditLog, maintenance.DeletedTag(v)) }
	plan, err := retention.Make(cmd.Context(), o)
	if err != nil {
		return err
	}
	result, err := plan.Apply(cmd.Context(), o, e.Log)
	if asJSON {
		return errors.Join(err, command.WriteJSON(cmd.OutOrStdout(), struct {
			*retention.Plan
			Result retention.Result `json:"result"`
		}{plan, result}))
	}
	for _, problem := range plan.Problems {
		fmt.Fprintln(cmd.OutOrStdout(), "skipped:", problem)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s deleted, %d skipped because they were changed concurrently, %d kept\n", plural.Of(result.Deleted, "tag"), result.Changed, plan.Kept)
	after := hint(e.Config.Storage.Delete.Keep > 0, " after storage.delete.keep, or with --purge-deleted")
	fmt.Fprintf(cmd.OutOrStdout(), "%s in %s can now be freed by garbage-collect -m%s\n", bytesize.Text(plan.Bytes), plural.Of(plan.Blobs, "blob"), after)
	return err
}

// printPlan writes a plan for people.
func printPlan(out io.Writer, plan *retention.Plan) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, v := range plan.Verdicts {
		action := "keep"
		if v.Delete {
			action = "delete"
		}
		rule := "-"
		if v.Rule > 0 {
			rule = retention.RuleKey(v.Rule)
		}
		fmt.Fprintf(t, "%s\t%s:%s\t%s\t%s\n", action, v.Repository, v.Tag, rule, v.Why)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if plan.Rules == 0 {
		fmt.Fprintln(out, "storage.maintenance.retention has no rules")
	}
	for _, problem := range plan.Problems {
		fmt.Fprintln(out, "skipped:", problem)
	}
	fmt.Fprintf(out, "%s would be deleted, %s kept by rules%s\n", plural.Of(plan.Deleted, "tag"), plural.Of(plan.Kept, "tag"),
		hint(len(plan.Problems) > 0, "; skipped repositories keep all their tags"))
	_, err := fmt.Fprintf(out, "%s in %s would become reclaimable; %s more are shared with content that stays\n", bytesize.Text(plan.Bytes), plural.Of(plan.Blobs, "blob"), bytesize.Text(plan.Shared))
	return err
}
