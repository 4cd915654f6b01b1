package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"slipway/relay/internal/config"
	"slipway/shared/command"
	settings "slipway/shared/config"
)

// newConfigCommand makes `relay config`, which checks a configuration without
// starting anything.
func newConfigCommand() *cobra.Command {
	var file string
	return command.Config(command.Configuration{
		Service: "relay",
		Sources: "FILE, or the file that " + config.PathVariable + " names, or " + config.DefaultPath + " if it is there, and the RELAY_ variables",
		Flags:   func(cmd *cobra.Command) { addConfigFlag(cmd, &file) },
		Load: func(args []string) (any, *settings.Report, error) {
			return loadNamed(file, args)
		},
		Check:     func(cfg any) ([]string, error) { return secretWarnings(cfg.(*config.Config)), nil },
		Reference: config.Reference,
		Schema:    config.Schema,
	})
}

// addConfigFlag lets a command read the configuration as serve does.
func addConfigFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().VarP((*fileName)(file), "config", "c", "configuration file (default: $"+config.PathVariable+", or "+config.DefaultPath+" if it is there)")
}

// fileName is a flag value that rejects "", which usually comes from an unset shell variable.
type fileName string

// String implements pflag.Value.
func (f *fileName) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *fileName) Type() string { return "string" }

// Set implements pflag.Value.
func (f *fileName) Set(name string) error {
	if name == "" {
		return errNoName
	}
	*f = fileName(name)
	return nil
}

var errNoName = errors.New("the name of the configuration file is empty: give one, or leave it out for the default")

// loadNamed loads the configuration file given by flag or argument, or the default one. The report is never nil.
func loadNamed(flag string, args []string) (*config.Config, *settings.Report, error) {
	file, err := fileNamed(flag, args)
	if err != nil {
		return nil, &settings.Report{}, err
	}
	return config.Load(file, os.Environ())
}

// loadConfig reads the configuration and prints its warnings.
func loadConfig(cmd *cobra.Command, file string) (*config.Config, error) {
	cfg, report, err := config.Load(file, os.Environ())
	command.Warn(cmd, report)
	return cfg, err
}

// fileNamed returns the file given by flag or argument, "" for neither. Two different names are an error.
func fileNamed(flag string, args []string) (string, error) {
	switch {
	case len(args) == 0:
		return flag, nil
	case args[0] == "":
		return "", errNoName
	case flag == "" || flag == args[0]:
		return args[0], nil
	}
	return "", fmt.Errorf("two configurations are given, %s and --config %s: leave one out", args[0], flag)
}
