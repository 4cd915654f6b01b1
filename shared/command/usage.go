package command

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"slipway/shared/config"
)

// checkUsage turns wrong arguments and flags of a command and its subcommands into usage errors that show the correct call.
// A command group refuses an unknown subcommand: cobra would show its help and exit with 0.
func checkUsage(cmd *cobra.Command) {
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
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return withUsage(cmd, explained(cmd, err)) })
	args := cmd.Args
	if args == nil {
		args = cobra.NoArgs
	}
	cmd.Args = func(cmd *cobra.Command, given []string) error {
		if err := args(cmd, given); err != nil {
			return withUsage(cmd, named(cmd, given, err))
		}
		if err := together(cmd); err != nil {
			return withUsage(cmd, err)
		}
		return nil
	}
	for _, sub := range cmd.Commands() {
		checkUsage(sub)
	}
}

// known refuses the name of a command that there isn't.
func known(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), meant(cmd.SuggestionsFor(args[0])))
}

func meant(suggestions []string) string {
	if len(suggestions) == 0 {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", strings.Join(suggestions, " or "))
}

// named names the missing or superfluous argument, in place of a number.
func named(cmd *cobra.Command, args []string, err error) error {
	if cmd.HasSubCommands() || cmd.Name() == "help" {
		return err
	}
	words := strings.Fields(cmd.Use)[1:]
	required := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return strings.HasPrefix(word, "[") })
	switch {
	case len(args) < len(required):
		return fmt.Errorf("%s is missing", strings.TrimSuffix(required[len(args)], "..."))
	case len(args) > len(words):
		text := ""
		if extra := args[len(words)]; cmd.Flags().Lookup(configFlag) != nil && (strings.HasSuffix(extra, ".yml") || strings.HasSuffix(extra, ".yaml")) {
			text = "; a configuration is given with --config"
		}
		return fmt.Errorf("unexpected argument %q%s", args[len(words)], text)
	}
	return err
}

// together refuses missing and mutually exclusive flags. cobra's own check runs later, with other messages.
func together(cmd *cobra.Command) error {
	var missing []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Equal(f.Annotations[cobra.BashCompOneRequiredFlag], []string{"true"}) && !f.Changed {
			missing = append(missing, "--"+f.Name)
		}
	})
	switch len(missing) {
	case 0:
		return cmd.ValidateFlagGroups()
	case 1:
		return fmt.Errorf("%s is missing", missing[0])
	default:
		return fmt.Errorf("%s are missing", strings.Join(missing, " and "))
	}
}

// explained returns the reason why the value of a flag is invalid, without pflag's prefix, and suggests a name for an unknown
// flag.
func explained(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == "duration" {
		return fmt.Errorf("--%s: %w", invalid.GetFlag().Name, cmp.Or(errors.Unwrap(invalid), error(invalid)))
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1 {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := config.Nearest(unknown.GetSpecifiedName(), names); near != "" {
			return fmt.Errorf("%w%s", err, meant([]string{"--" + near}))
		}
	}
	return err
}

func withUsage(cmd *cobra.Command, err error) error {
	if cmd.HasSubCommands() {
		return Usage(fmt.Errorf("%w; the commands are in: %s --help", err, cmd.CommandPath()))
	}
	return Usage(fmt.Errorf("%w; usage: %s", err, cmd.UseLine()))
}
