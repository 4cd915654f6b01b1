package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"slipway/shared/config"
)

// tellUsage has a command, and those below it, say how it is called after what
// is wrong with its arguments or flags.
func tellUsage(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return withUsage(cmd, explained(err)) })
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return withUsage(cmd, named(cmd, args, err))
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		tellUsage(sub)
	}
}

// named says which argument of the usage line is missing, in place of a number.
func named(cmd *cobra.Command, args []string, err error) error {
	var required []string
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if strings.HasPrefix(word, "[") {
			continue
		}
		required = append(required, strings.TrimSuffix(word, "..."))
	}
	if len(args) >= len(required) {
		return err
	}
	return fmt.Errorf("%s is missing", required[len(args)])
}

// explained says of a duration that cannot be read how it is written.
func explained(err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == "duration" {
		return fmt.Errorf("--%s: %w", invalid.GetFlag().Name, config.NotDuration(invalid.GetValue()))
	}
	return err
}

func withUsage(cmd *cobra.Command, err error) error {
	if cmd.HasSubCommands() {
		return fmt.Errorf("%w; the commands are in: %s --help", err, cmd.CommandPath())
	}
	return fmt.Errorf("%w; usage: %s", err, cmd.UseLine())
}
