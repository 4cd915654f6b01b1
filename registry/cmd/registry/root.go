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

// built is what this binary was built from.
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
	root.AddCommand(
		newServeCommand(),
		newHealthCommand(),
		newConfigCommand(),
		newHtpasswdCommand(stdin, stdout, stderr),
		command.Version(built()),
		command.Manual(built()),
	)
	root.AddCommand(
		newGarbageCollectCommand(),
		newRestoreCommand(),
		newRetentionCommand(),
		newVerifyCommand(),
		newUsageCommand(),
		newUploadsCommand(),
		newExportCommand(),
		newImportCommand(),
		newMirrorCommand(),
		newEventsCommand(),
		newAccessCommand(),
		newRobotCommand(),
	)
	examples.Set(root)
	return root
}
