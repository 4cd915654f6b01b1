package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"slipway/registry/internal/access"
	"slipway/registry/internal/app"
	"slipway/registry/internal/audit"
	"slipway/registry/internal/config"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/shared/command"
)

func newAccessCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "access", Short: "Explain what the access rules allow"}
	cmd.AddCommand(newExplainCommand())
	return cmd
}

func newExplainCommand() *cobra.Command {
	var groups []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain WHO REPOSITORY RIGHT",
		Short: "Show whether a caller has a right, and which rule decides",
		Long: `Shows whether WHO has a right in REPOSITORY, and which rule decides.

WHO is anonymous, a user name, robot:NAME (or its user name, robot+NAME),
workload:NAME, cert:NAME, or oidc:NAME for a user of the identity provider,
with the groups that --group adds. RIGHT is pull, push, tag-move, delete, list or admin.
REPOSITORY "*" stands for the registry as a whole, such as the management of
robots; only rules for "**" apply to it.

The exit code is 0 for "allowed", 3 for "denied", and 1 on an error, such as a user
name that is not in the password file.`,
		Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			right, err := access.ParseRight(args[2])
			if err != nil {
				return command.Usage(err)
			}
			var name oci.Name
			if args[1] != "*" {
				if name, err = oci.ParseName(args[1]); err != nil {
					return command.Usage(fmt.Errorf("%q is not the name of a repository", args[1]))
				}
			}
			cfg, _, err := config.Load(command.ConfigFile(cmd), os.Environ())
			if err != nil {
				return err
			}
			allowed, why, err := app.Explain(cmd.Context(), cfg, args[0], groups, right, name, func(do func(storage.Store) error) error {
				return onStorage(cmd, audit.Record{}, func(e *environment) error { return do(e.Store) })
			})
			if err != nil {
				return err
			}
			err = command.Report(cmd, asJSON, map[string]any{"allowed": allowed, "why": why}, func(out io.Writer) error {
				_, err := fmt.Fprintln(out, why)
				return err
			})
			if err == nil && !allowed {
				err = command.Refused(fmt.Errorf("%s may not %s in %s", args[0], args[2], args[1]))
			}
			return err
		},
	}
	cmd.Flags().StringArrayVar(&groups, "group", nil, "group of the identity provider that oidc:NAME is in; repeat it for several")
	command.JSONFlag(cmd, &asJSON)
	return cmd
}
