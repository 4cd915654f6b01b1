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
		Service: "registry", Variable: config.PathVariable, Path: config.DefaultPath,
		Load: func(file string) (any, *settings.Report, error) { return config.Load(file, os.Environ()) },
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
func loadForPeople(cmd *cobra.Command, args []string) (*config.Config, error) {
	file, err := command.ConfigArgument(cmd, args)
	if err != nil {
		return nil, err
	}
	cfg, report, err := config.Load(file, os.Environ())
	command.Warn(cmd, report)
	return cfg, err
}

// configured adds --config to the commands and those below them, except for groups, and returns them.
func configured(commands ...*cobra.Command) []*cobra.Command {
	for _, cmd := range commands {
		if cmd.HasSubCommands() {
			configured(cmd.Commands()...)
			continue
		}
		command.ConfigFlag(cmd, config.PathVariable, config.DefaultPath)
	}
	return commands
}
