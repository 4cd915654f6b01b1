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

// built returns the version, commit and date of this build.
func built() build.Info { return build.Of("relay", version, commit, date) }

// run runs a command line and returns the exit code. It prints errors to stderr.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return command.Run(ctx, newRoot(stdin, stdout, stderr), args)
}

func newRoot(stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	root := command.New(built(), "Accept messages over HTTP and deliver them to Matrix rooms", stdin, stdout, stderr)
	command.Add(root, "Serve", newServeCommand(), newSetupCommand(), newConfigCommand(), newHealthCommand(), newDoctorCommand())
	command.Add(root, "Messages", newSendCommand(), newMessagesCommand())
	command.Add(root, "Applications and users", newAppCommand(), newUserCommand(), newApplyCommand())
	command.Add(root, "Database and keys", newBackupCommand(), newMigrateCommand(), newImportCommand(), newRecoveryKeyCommand())
	command.Add(root, "About the program", command.Version(built()), command.Manual(built()))
	examples.Set(root)
	return root
}
