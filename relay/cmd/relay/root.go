package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"slipway/shared/build"
	"slipway/shared/command"
)

// Set by the linker; empty in a plain build.
var version, commit, date string

// built is what this binary was built from.
func built() build.Info { return build.Of("relay", version, commit, date) }

// run is the whole program: it returns the exit code. Every failure is a
// sentence on stderr.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return command.Run(ctx, newRoot(stdin, stdout, stderr), args)
}

func newRoot(stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	root := command.New(built(), "Accept messages over HTTP and deliver them to Matrix rooms", stdin, stdout, stderr)
	root.AddCommand(newServeCommand(), newSetupCommand(), newImportCommand(), newMigrateCommand(), newConfigCommand(), newAppCommand(), newUserCommand(), newMessagesCommand(), newSendCommand(), newDoctorCommand(), newRecoveryKeyCommand(), newHealthCommand(), command.Version(built()), command.Manual(built()))
	examples.Set(root)
	return root
}
