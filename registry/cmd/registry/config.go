package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"slipway/registry/internal/config"
	settings "slipway/shared/config"
)

// newConfigCommand makes `registry config`, which looks at a configuration
// without starting anything.
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
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Tell what is wrong with the file and the REGISTRY_ variables",
		Long: "Reads the configuration as `registry serve` would, from the file, or the one that " + config.PathVariable +
			" names, and the REGISTRY_ variables, and tells everything that is wrong with it.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, _, err := loadForPeople(cmd, args); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "the configuration is valid")
			return nil
		},
	}
}

func newConfigShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show [FILE]",
		Short: "Show every setting in force and where it comes from",
		Long: "Shows the configuration that `registry serve` would run with as YAML, the origin of each value behind it: " +
			"the line of the file, the variable, or the default. Secrets are hidden.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, report, err := loadForPeople(cmd, args)
			if err != nil {
				return err
			}
			return report.Show(cmd.OutOrStdout(), cfg)
		},
	}
}

// loadForPeople loads what serve would and writes the warnings to stderr.
func loadForPeople(cmd *cobra.Command, args []string) (*config.Config, *settings.Report, error) {
	cfg, report, err := config.Load(fileArgument(args), os.Environ())
	for _, warning := range report.Warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning:", warning)
	}
	return cfg, report, err
}

func fileArgument(args []string) string {
	if len(args) == 0 {
		return ""
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
