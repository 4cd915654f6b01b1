package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"slipway/registry/internal/access"
	"slipway/registry/internal/app"
	"slipway/registry/internal/audit"
	"slipway/registry/internal/config"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

func newAccessCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "access", Short: "Explain what the access rules allow"}
	cmd.AddCommand(newExplainCommand())
	return cmd
}

func newExplainCommand() *cobra.Command {
	var groups []string
	cmd := &cobra.Command{
		Use:   "explain WHO REPOSITORY RIGHT [FILE]",
		Short: "Show whether a caller has a right, and which rule decides",
		Long: `Shows whether WHO has a right in REPOSITORY, and which rule decides.

WHO is anonymous, a user name, robot:NAME (or its user name, robot+NAME),
workload:NAME, cert:NAME, or oidc:NAME for a user of the identity provider,
with the groups that --group adds. RIGHT is pull, push, tag-move, delete, list or admin.
REPOSITORY "*" stands for the registry as a whole, such as the management of
robots; only rules for "**" apply to it. The configuration is FILE, or the one that REGISTRY_CONFIGURATION_PATH names.

The exit status is 0 if the command prints "allowed" or "denied", and 1 on an error,
such as a user name that is not in the password file.`,
		Args: cobra.RangeArgs(3, 4),
		RunE: func(cmd *cobra.Command, args []string) error {
			right, err := access.ParseRight(args[2])
			if err != nil {
				return err
			}
			var name oci.Name
			if args[1] != "*" {
				if name, err = oci.ParseName(args[1]); err != nil {
					return fmt.Errorf("%q is not the name of a repository", args[1])
				}
			}
			cfg, _, err := config.Load(fileArgument(args[3:]), os.Environ())
			if err != nil {
				return err
			}
			answer, err := app.Explain(cmd.Context(), cfg, args[0], groups, right, name, func(do func(storage.Store) error) error {
				return onStorage(cmd, fileArgument(args[3:]), audit.Record{}, func(e *environment) error { return do(e.Store) })
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), answer)
			return err
		},
	}
	cmd.Flags().StringArrayVar(&groups, "group", nil, "group of the identity provider that oidc:NAME is in; repeat it for several")
	return cmd
}
