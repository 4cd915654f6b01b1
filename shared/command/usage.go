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
// is wrong with its arguments or flags. A command that only holds others refuses an unknown one:
// cobra would show its help and exit with 0.
func tellUsage(cmd *cobra.Command) {
	switch {
	case cmd.HasSubCommands() && !cmd.Runnable():
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		cmd.Args = known
	case cmd.HasParent() && !cmd.Parent().HasParent() && cmd.Name() == "help":
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			group, rest, _ := cmd.Root().Find(args) // an error is about what rest has, too
			return known(group, rest)
		}
	}
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

// known refuses the name of a command that there isn't.
func known(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	text := ""
	if all := cmd.SuggestionsFor(args[0]); len(all) > 0 {
		text = fmt.Sprintf(" (did you mean %s?)", strings.Join(all, " or "))
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), text)
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
