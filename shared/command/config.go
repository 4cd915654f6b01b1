package command

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"slipway/shared/config"
)

// Configuration describes a service for the command `config`.
type Configuration struct {
	// Service is the program's name.
	Service string
	// Variable is the environment variable that names the file without --config, and Path the file that is read
	// without either, if it exists.
	Variable, Path string
	// Load reads the configuration as the service would, from the file that --config names, "" without one.
	// cfg points to it; the report is never nil.
	Load func(file string) (cfg any, report *config.Report, err error)
	// Check, if not nil, checks what the settings name, such as files, before a
	// start would. Its error joins all that is wrong; the warnings are sentences about
	// what does not stop a start.
	Check func(cfg any) (warnings []string, err error)
	// CheckRest, if not nil, is asked in the place of Check where Load has failed. Its cfg
	// is what Load returned, which has mistakes.
	CheckRest func(cfg any) error
	// Reference writes every setting as Markdown.
	Reference func(io.Writer) error
	// Schema writes a JSON Schema of every setting.
	Schema func(io.Writer) error
}

// Config returns the command that checks a configuration without starting anything.
func Config(c Configuration) *cobra.Command {
	cmd := Group("config", "Check or show the configuration", "")
	sources := fmt.Sprintf("the file of --config, the one that %s names, or %s if it is there, and the %s_ variables", c.Variable, c.Path, strings.ToUpper(c.Service))
	cmd.AddCommand(c.check(sources), c.show(), c.reference(), c.schema())
	return cmd
}

func (c Configuration) check(sources string) *cobra.Command {
	var skip bool
	cmd := c.reading(&cobra.Command{
		Use:   "check",
		Short: "List the errors of the configuration",
		Long:  fmt.Sprintf("Reads the configuration as `%s serve` would, from %s, and lists every problem.", c.Service, sources),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, _, err := c.load(cmd)
			switch {
			case skip:
			case err != nil && c.CheckRest != nil:
				err = errors.Join(err, c.CheckRest(cfg))
			case err == nil && c.Check != nil:
				var warnings []string
				warnings, err = c.Check(cfg)
				Warn(cmd, &config.Report{Warnings: warnings})
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "the configuration is valid")
			return err
		},
	})
	if c.Check != nil {
		cmd.Flags().BoolVar(&skip, "skip-files", false, "do not look into the files that it names, for a check on another machine")
	}
	return cmd
}

func (c Configuration) show() *cobra.Command {
	return c.reading(&cobra.Command{
		Use:   "show",
		Short: "Show the effective settings and where they come from",
		Long: fmt.Sprintf("Shows as YAML the configuration that `%s serve` would use. A comment names the origin of each value: "+
			"the line of the file, the variable, or the default. Secrets are hidden.", c.Service),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, report, err := c.load(cmd)
			if err != nil {
				return err
			}
			return report.Show(cmd.OutOrStdout(), cfg)
		},
	})
}

// reading completes a command that reads a configuration.
func (c Configuration) reading(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.NoArgs
	ConfigFlag(cmd, c.Variable, c.Path)
	return cmd
}

// load reads the configuration and writes its warnings to stderr.
func (c Configuration) load(cmd *cobra.Command) (any, *config.Report, error) {
	cfg, report, err := c.Load(ConfigFile(cmd))
	Warn(cmd, report)
	return cfg, report, err
}

// Warn writes the warnings of a report to the command's stderr.
func Warn(cmd *cobra.Command, report *config.Report) {
	for _, warning := range report.Warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning:", warning)
	}
}

func (c Configuration) reference() *cobra.Command {
	return &cobra.Command{
		Use:   "reference",
		Short: "Write a reference of all settings as Markdown",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.Reference(cmd.OutOrStdout()) },
	}
}

func (c Configuration) schema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Write a JSON Schema of all settings, for editors and charts",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.Schema(cmd.OutOrStdout()) },
	}
}
