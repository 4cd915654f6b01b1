package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"slipway/relay/internal/config"
)

// run is the whole program: it returns the exit code. Every failure is a
// sentence on stderr.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot(stdin, stdout, stderr)
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(stderr, "relay: %v\n", err)
		return 1
	}
	return 0
}

func newRoot(stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "relay",
		Short:         "Accept messages over HTTP and deliver them to Matrix rooms",
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Version:       built().Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate(built().Line() + "\n")
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddCommand(newServeCommand(), newSetupCommand(), newImportCommand(), newConfigCommand(), newAppCommand(), newSendCommand(), newDoctorCommand(), newHealthCommand(), newVersionCommand())
	tellUsage(root)
	return root
}

// addConfigFlag lets a command read the configuration as serve does.
func addConfigFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVarP(file, "config", "c", "", "configuration file (default: $"+config.PathVariable+", or "+config.DefaultPath+" if it is there)")
}

// loadConfig reads the configuration and tells its warnings.
func loadConfig(cmd *cobra.Command, file string) (*config.Config, error) {
	cfg, report, err := config.Load(file, os.Environ())
	for _, warning := range report.Warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning:", warning)
	}
	return cfg, err
}
