package command

import (
	"fmt"

	"github.com/spf13/cobra"
)

// tellUsage has a command, and those below it, say how it is called after what
// is wrong with its arguments or flags.
func tellUsage(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(withUsage)
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return withUsage(cmd, err)
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		tellUsage(sub)
	}
}

func withUsage(cmd *cobra.Command, err error) error {
	if cmd.HasSubCommands() {
		return fmt.Errorf("%w; the commands are in: %s --help", err, cmd.CommandPath())
	}
	return fmt.Errorf("%w; usage: %s", err, cmd.UseLine())
}
