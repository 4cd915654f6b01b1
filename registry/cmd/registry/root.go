package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// run is the whole program: it returns the exit code. Every failure is a
// sentence on stderr.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot(stdin, stdout, stderr)
	root.SetArgs(asContainer(args))
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(stderr, "registry: %v\n", err)
		return 1
	}
	return 0
}

// asContainer takes the arguments of distribution's images too, whose entry
// point serves a file that comes alone, and which may name the program again.
func asContainer(args []string) []string {
	switch {
	case len(args) > 1 && args[0] == "registry":
		return args[1:]
	case len(args) == 1 && (strings.HasSuffix(args[0], ".yml") || strings.HasSuffix(args[0], ".yaml")):
		return append([]string{"serve"}, args...)
	default:
		return args
	}
}

// serves says whether the arguments start the service.
func serves(args []string) bool {
	args = asContainer(args)
	return len(args) > 0 && args[0] == "serve"
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
	root.AddCommand(newServeCommand(), newHealthCommand(), newConfigCommand(), newHtpasswdCommand(stdin, stdout, stderr), newVersionCommand())
	root.AddCommand(newGarbageCollectCommand(), newRetentionCommand(), newVerifyCommand(), newUsageCommand(), newExportCommand(), newImportCommand(), newEventsCommand())
	tellUsage(root)
	return root
}
