package main

import (
	"os"

	"github.com/spf13/cobra"

	"slipway/relay/internal/config"
	"slipway/shared/command"
	settings "slipway/shared/config"
)

// newConfigCommand makes `relay config`, which looks at a configuration without
// starting anything.
func newConfigCommand() *cobra.Command {
	var file string
	return command.Config(command.Configuration{
		Service: "relay",
		Sources: "the file, or the one that " + config.PathVariable + " names, or " + config.DefaultPath + " if it is there, and the RELAY_ variables",
		Flags:   func(cmd *cobra.Command) { addConfigFlag(cmd, &file) },
		Load: func(args []string) (any, *settings.Report, error) {
			return config.Load(fileArgument(file, args), os.Environ())
		},
		Reference: config.Reference,
	})
}

// addConfigFlag lets a command read the configuration as serve does.
func addConfigFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVarP(file, "config", "c", "", "configuration file (default: $"+config.PathVariable+", or "+config.DefaultPath+" if it is there)")
}

// loadConfig reads the configuration and tells its warnings.
func loadConfig(cmd *cobra.Command, file string) (*config.Config, error) {
	cfg, report, err := config.Load(file, os.Environ())
	command.Warn(cmd, report)
	return cfg, err
}

func fileArgument(flag string, args []string) string {
	if len(args) == 0 {
		return flag
	}
	return args[0]
}
