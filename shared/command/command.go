// Package command has what the command lines of both services have in common: how
// a program is run and fails, and its commands `version` and `config`.
package command

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"slipway/shared/build"
)

// New returns the command of the whole program, which tells its help when it is
// called without another one. The caller adds those.
func New(info build.Info, short string, stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	root := group(info.Name, short)
	root.Version = info.Version
	root.SilenceUsage = true
	root.SilenceErrors = true
	root.SetVersionTemplate(info.Line() + "\n")
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root
}

// Run runs what the arguments ask for and returns the exit code. Every failure is a
// sentence on the program's stderr; one of the arguments says how the command is
// called.
func Run(ctx context.Context, root *cobra.Command, args []string) int {
	tellUsage(root)
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(root.ErrOrStderr(), "%s: %v\n", root.Name(), err)
		return 1
	}
	return 0
}

// group is a command that only holds others.
func group(use, short string) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}
