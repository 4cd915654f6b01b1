package main

import (
	"os"

	"github.com/spf13/cobra"

	"slipway/registry/internal/app"
	"slipway/registry/internal/config"
	"slipway/shared/command"
	settings "slipway/shared/config"
)

// newConfigCommand returns the `registry config` command, which examines a configuration
// without starting anything.
func newConfigCommand() *cobra.Command {
	return command.Config(command.Configuration{
		Service: "registry",
		Sources: "FILE, or the file that " + config.PathVariable + " names, and the REGISTRY_ variables",
		Load: func(args []string) (any, *settings.Report, error) {
			return config.Read(fileArgument(args), os.Environ())
		},
		Check: func(cfg any) ([]string, error) {
			c := cfg.(*config.Config)
			return app.Warnings(c), app.CheckFiles(c)
		},
		CheckRest: func(cfg any) error {
			if c := cfg.(*config.Config); c != nil {
				return app.CheckFiles(c)
			}
			return nil
		},
		Reference: config.Reference,
		Schema:    config.Schema,
	})
}

// loadForPeople loads the configuration that serve would and writes the warnings to stderr.
func loadForPeople(cmd *cobra.Command, args []string) (*config.Config, *settings.Report, error) {
	cfg, report, err := config.Load(fileArgument(args), os.Environ())
	command.Warn(cmd, report)
	return cfg, report, err
}

func fileArgument(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
