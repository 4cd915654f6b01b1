package main

import (
	"context"
	"io"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"slipway/shared/build"
	"slipway/shared/command"
)

// Set by the linker; empty in a plain build.
var version, commit, date string

// built describes the build of this binary.
func built() build.Info { return build.Of("registry", version, commit, date) }

// run is the whole program: it returns the exit code. Every failure is a
// sentence on stderr.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return command.Run(ctx, newRoot(stdin, stdout, stderr), distributionArgs(args))
}

// distributionArgs also accepts the arguments of distribution's images, whose entry
// point serves a lone file argument and which may repeat the name of the program
// or its path.
func distributionArgs(args []string) []string {
	switch {
	case len(args) > 1 && path.Base(args[0]) == "registry":
		return args[1:]
	case len(args) == 1 && isFile(args[0]):
		return append([]string{"serve"}, args...)
	default:
		return args
	}
}

// isFile reports whether an argument is a configuration file by its name.
func isFile(arg string) bool {
	return strings.HasSuffix(arg, ".yml") || strings.HasSuffix(arg, ".yaml")
}

func newRoot(stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	root := command.New(built(), "Store and serve container images", stdin, stdout, stderr)
	command.Add(root, "Serve", append(configured(newServeCommand(), newHealthCommand(), newEventsCommand()), newConfigCommand())...)
	command.Add(root, "Free space and check it", configured(
		newGarbageCollectCommand(), newRetentionCommand(), newUploadsCommand(), newUsageCommand(), newVerifyCommand(),
	)...)
	command.Add(root, "Images", configured(newRestoreCommand(), newExportCommand(), newImportCommand(), newMirrorCommand(), newReplicationCommand())...)
	command.Add(root, "Logins and rights", append(configured(newAccessCommand(), newRobotCommand()), newHtpasswdCommand(stdin, stdout, stderr))...)
	command.Add(root, "About the program", command.Version(built()), command.Manual(built()))
	examples.Set(root)
	return root
}
