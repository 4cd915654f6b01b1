package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/bytesize"
	"slipway/registry/internal/maintenance/schedule"
	"slipway/registry/internal/replication"
	"slipway/registry/internal/storage"
	"slipway/shared/command"
	"slipway/shared/plural"
)

// newReplicationCommand returns the `registry replication` command.
func newReplicationCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replication",
		Short: "Copy images to other registries, and show how far that is",
	}
	cmd.AddCommand(newReplicationListCommand(), newReplicationSyncCommand())
	return cmd
}

// replicationTarget is a target with its status, as JSON.
type replicationTarget struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	replication.Status
}

func newReplicationListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the targets of replication with what waits for them",
		Long: "Lists the targets of replication.targets with the number of changes that wait for them, since when they lack something, and the last error. " +
			"A registry may serve meanwhile.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onStorage(cmd, audit.Record{}, func(e *environment) error {
				o, err := e.replicationOptions()
				if err != nil {
					return err
				}
				list := []replicationTarget{}
				for _, t := range o.Targets {
					s, err := o.Status(cmd.Context(), t)
					if err != nil {
						return err
					}
					list = append(list, replicationTarget{t.Name, t.URL.String(), s})
				}
				return command.Report(cmd, asJSON, list, func(out io.Writer) error { return printTargets(out, list) })
			})
		},
	}
	command.JSONFlag(cmd, &asJSON)
	return cmd
}

func printTargets(out io.Writer, list []replicationTarget) error {
	stamp := func(at time.Time) string {
		if at.IsZero() {
			return "-"
		}
		return at.UTC().Format(time.RFC3339)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TARGET\tURL\tWAITING\tBEHIND SINCE\tCOMPLETE\tCOMPARED")
	for _, target := range list {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\n", target.Name, target.URL, target.Waiting, stamp(target.Behind), stamp(target.Copied), stamp(target.Compared))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, target := range list {
		if target.Error != "" {
			fmt.Fprintf(out, "%s failed at %s: %s\n", target.Name, stamp(target.Failed), target.Error)
		}
		if target.Skipped != "" {
			fmt.Fprintf(out, "%s doesn't get %s\n", target.Name, target.Skipped)
		}
	}
	return nil
}

func newReplicationSyncCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "sync [TARGET]...",
		Short: "Compare all repositories with other registries and copy what they lack",
		Long: "Compares all repositories with the given targets, or those of replication.targets, and copies what differs. " +
			"What was interrupted continues where it was. A registry may serve meanwhile.",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return onStorage(cmd, commandAct(cmd), func(e *environment) error { return e.replicate(cmd, args, asJSON) })
		},
	}
	command.JSONFlag(cmd, &asJSON)
	return cmd
}

func (e *environment) replicationOptions() (*replication.Options, error) {
	o, err := e.Replication()
	if err == nil && o == nil {
		err = errors.New("no target is configured: set replication.targets")
	}
	return o, err
}

func (e *environment) replicate(cmd *cobra.Command, given []string, asJSON bool) error {
	o, err := e.replicationOptions()
	if err != nil {
		return err
	}
	for _, name := range given {
		if !slices.ContainsFunc(o.Targets, func(t *replication.Target) bool { return t.Name == name }) {
			return command.Usage(fmt.Errorf("%q is not the name of one of replication.targets", name))
		}
	}
	leave, err := e.Join(cmd.Context())
	if err != nil {
		return err
	}
	defer leave()
	reports := []replication.Report{}
	var failed error
	for _, t := range o.Targets {
		if len(given) > 0 && !slices.Contains(given, t.Name) {
			continue
		}
		report, err := replicateAll(cmd.Context(), o, t)
		if errors.Is(err, storage.ErrBusy) {
			err = command.Refused(errors.New("another process copies to it; see registry replication list"))
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", t.Name, err))
		}
		reports = append(reports, report)
	}
	return errors.Join(failed, command.Report(cmd, asJSON, reports, func(out io.Writer) error { return printReports(out, reports) }))
}

// replicateAll takes turns until nothing waits, or one fails.
func replicateAll(ctx context.Context, o *replication.Options, t *replication.Target) (all replication.Report, err error) {
	all.Target = t.Name
	for compare := true; ; compare = false {
		report, err := o.Turn(ctx, t, compare, &schedule.Progress{})
		all.Add(&report)
		if err != nil || report.Waiting == 0 {
			return all, err
		}
	}
}

func printReports(out io.Writer, reports []replication.Report) error {
	for i := range reports {
		r := &reports[i]
		for _, note := range r.Notes {
			fmt.Fprintf(out, "%s: left out: %s\n", r.Target, note)
		}
		_, err := fmt.Fprintf(out, "%s: compared %s; copied %s, %s, %s with %s; deleted %s; %d waiting\n", r.Target, plural.Of(r.Repositories, "repository"),
			plural.Of(r.Tags, "tag"), plural.Of(r.Manifests, "manifest"), plural.Of(r.Blobs, "blob"), bytesize.Text(r.Bytes), plural.Of(r.Deleted, "tag"), r.Waiting)
		if err != nil {
			return err
		}
	}
	return nil
}
