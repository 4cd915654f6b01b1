package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/replication"
	"slipway/shared/command"
)

// newReplicationCommand returns the `registry replication` command.
func newReplicationCommand() *cobra.Command {
	var asJSON bool
	list := &cobra.Command{
		Use:   "list",
		Short: "List the targets of replication with what waits for them",
		Long: "Lists the targets of replication.targets with the number of changes that wait for them, since when they lack something, and the last error. " +
			"A registry may serve meanwhile.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onStorage(cmd, audit.Record{}, func(e *environment) error { return e.targets(cmd, nil, asJSON, (*replication.Replicator).Status) })
		},
	}
	sync := &cobra.Command{
		Use:   "sync [TARGET]...",
		Short: "Compare all repositories with other registries and copy what they lack",
		Long: "Compares all repositories with the given targets, or those of replication.targets, copies what differs, and lists them like registry replication list. " +
			"What was interrupted continues where it was. A registry may serve meanwhile.",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return onStorage(cmd, commandAct(cmd), func(e *environment) error { return e.targets(cmd, args, asJSON, (*replication.Replicator).Sync) })
		},
	}
	command.JSONFlag(list, &asJSON)
	command.JSONFlag(sync, &asJSON)
	return command.Group("replication", "Copy images to other registries, and show how far that is", "", list, sync)
}

// targets lists the given targets, or all, with the status that each returns.
func (e *environment) targets(cmd *cobra.Command, given []string, asJSON bool, status func(*replication.Replicator, context.Context, *replication.Target) (replication.Status, error)) error {
	r, err := e.Replication()
	if err == nil && r == nil {
		err = errors.New("no target is configured: set replication.targets")
	}
	if err != nil {
		return err
	}
	for _, name := range given {
		if !slices.ContainsFunc(r.Targets, func(t *replication.Target) bool { return t.Name == name }) {
			return command.Usage(fmt.Errorf("%q is not the name of one of replication.targets", name))
		}
	}
	list := []replication.Status{}
	var failed error
	for _, t := range r.Targets {
		if len(given) > 0 && !slices.Contains(given, t.Name) {
			continue
		}
		s, err := status(r, cmd.Context(), t)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", t.Name, err))
		}
		list = append(list, s)
	}
	return errors.Join(failed, command.Report(cmd, asJSON, list, func(out io.Writer) error {
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "TARGET\tURL\tSTATUS")
		for i := range list {
			fmt.Fprintf(table, "%s\t%s\t%s\n", list[i].Name, list[i].URL, &list[i])
		}
		return table.Flush()
	}))
}
