package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"slipway/relay/internal/config"
)

// newConfigCommand makes `relay config`, which looks at a configuration without
// starting anything.
func newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check or show the configuration",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigCheckCommand(), newConfigShowCommand(), newConfigReferenceCommand())
	return cmd
}

func newConfigCheckCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Tell what is wrong with the file and the RELAY_ variables",
		Long:  "Reads the configuration as `relay serve` would and tells everything that is wrong with it.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := loadConfig(cmd, fileArgument(file, args)); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "the configuration is valid")
			return nil
		},
	}
	addConfigFlag(cmd, &file)
	return cmd
}

func newConfigShowCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "show [FILE]",
		Short: "Show every setting in force and where it comes from",
		Long: "Shows the configuration that `relay serve` would run with as YAML, the origin of each value behind it: " +
			"the line of the file, the variable, or the default. Secrets are hidden.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, report, err := config.Load(fileArgument(file, args), os.Environ())
			if err != nil {
				return err
			}
			return report.Show(cmd.OutOrStdout(), cfg)
		},
	}
	addConfigFlag(cmd, &file)
	return cmd
}

func fileArgument(flag string, args []string) string {
	if len(args) == 0 {
		return flag
	}
	return args[0]
}

func newConfigReferenceCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reference",
		Short: "Write every setting there is, as Markdown",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return config.Reference(cmd.OutOrStdout()) },
	}
}
