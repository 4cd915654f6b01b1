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

// New returns the command of the whole program, which describes what to do first when it is
// called without another one. The caller adds those.
func New(info build.Info, short string, stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	root := Group(info.Name, short, "")
	root.Args = known
	root.RunE = func(cmd *cobra.Command, _ []string) error { return first(cmd.OutOrStdout(), info.Name, short) }
	root.Version = info.Version
	root.SilenceUsage = true
	root.SilenceErrors = true
	root.SetVersionTemplate(info.Line() + "\n")
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetUsageTemplate(usageTemplate(root.UsageTemplate()))
	return root
}

// Run runs what the arguments ask for and returns the exit code. Every failure is a
// sentence on the program's stderr; one of the arguments is how the command is
// called.
func Run(ctx context.Context, root *cobra.Command, args []string) int {
	Complete(root, args...)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintf(root.ErrOrStderr(), "%s: %v\n", root.Name(), err)
	}
	return exitCode(err)
}

// Complete gives the program the commands help and completion, its checks of usage, and the lines of its help. Run calls it.
func Complete(root *cobra.Command, args ...string) {
	if len(root.Groups()) > 0 {
		last := root.Groups()[len(root.Groups())-1].ID
		root.SetHelpCommandGroupID(last)
		root.SetCompletionCommandGroupID(last)
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	checkUsage(root)
	wrapHelp(root)
}

// first describes what to do first with a program.
func first(out io.Writer, name, short string) error {
	_, err := fmt.Fprintf(out, `%[1]s: %[2]s

  %[1]s config check --config FILE   check a configuration; config.example.yml has every setting
  %[1]s serve FILE                   run the service
  docs/README.md, in the archive and in the sources, has a page for each task

%[1]s --help lists all commands.
`, name, short)
	return err
}

// Group returns a command that only holds others.
func Group(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Long:  long,
	}
	cmd.AddCommand(commands...)
	return cmd
}
