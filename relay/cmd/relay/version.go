package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// Set by the linker.
var (
	version = "dev"
	commit  = "unknown"
	date    = "unknown"
)

func versionLine() string { return "relay slipway/relay " + version }

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Tell the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\ncommit %s of %s, %s %s/%s\n", versionLine(), commit, date, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
