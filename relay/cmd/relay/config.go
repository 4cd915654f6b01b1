package main

import (
	"os"

	"github.com/spf13/cobra"

	"slipway/relay/internal/config"
	"slipway/shared/command"
	settings "slipway/shared/config"
)

// newConfigCommand makes `relay config`, which checks a configuration without
// starting anything.
func newConfigCommand() *cobra.Command {
	return command.Config(command.Configuration{
		Service: "relay", Variable: config.PathVariable, Path: config.DefaultPath,
		Load:      func(file string) (any, *settings.Report, error) { return config.Load(file, os.Environ()) },
		Check:     func(cfg any) ([]string, error) { return secretWarnings(cfg.(*config.Config)), nil },
		Reference: config.Reference,
		Schema:    config.Schema,
	})
}

// addConfigFlag lets a command read the configuration as serve does.
func addConfigFlag(cmd *cobra.Command) {
	command.ConfigFlag(cmd, config.PathVariable, config.DefaultPath)
}

// loadConfig reads the configuration and prints its warnings.
func loadConfig(cmd *cobra.Command) (*config.Config, error) {
	cfg, report, err := config.Load(command.ConfigFile(cmd), os.Environ())
	command.Warn(cmd, report)
	return cfg, err
}
