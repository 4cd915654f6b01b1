package command

import (
	"github.com/spf13/cobra"

	"slipway/shared/build"
)

// Version is the command that describes what the program was built from.
func Version(info build.Info) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and the compiler",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return info.Write(cmd.OutOrStdout(), asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write a JSON object")
	return cmd
}
