package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// run is the whole program: it returns the exit code. Every failure is a
// sentence on stderr.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot(stdin, stdout, stderr)
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(stderr, "registry: %v\n", err)
		return 1
	}
	return 0
}

func newRoot(stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "registry",
		Short:         "Store and serve container images",
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
	root.AddCommand(newServeCommand(), newConfigCommand(), newHtpasswdCommand(stdin, stdout, stderr), newVersionCommand())
	root.AddCommand(newGarbageCollectCommand(), newRetentionCommand(), newVerifyCommand(), newUsageCommand(), newExportCommand(), newImportCommand())
	return root
}
