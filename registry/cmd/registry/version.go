package main

import (
	"github.com/spf13/cobra"

	"slipway/shared/build"
)

// Set by the linker; empty in a plain build.
var version, commit, date string

// built is what this binary was built from.
func built() build.Info { return build.Of("registry", version, commit, date) }

func newVersionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Tell the version, the commit and the compiler",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return built().Write(cmd.OutOrStdout(), asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write a JSON object")
	return cmd
}
