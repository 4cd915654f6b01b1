package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

const configFlag = "config"

// ConfigFlag adds --config, which names the configuration file, to a command. Without the flag, the variable names the file, or
// it is the one at path.
func ConfigFlag(cmd *cobra.Command, variable, path string) {
	cmd.Flags().VarP(new(fileName), configFlag, "c", "configuration file (default: $"+variable+", or "+path+" if it is there)")
}

// ConfigFile returns the file that --config names, "" if it isn't given.
func ConfigFile(cmd *cobra.Command) string { return cmd.Flag(configFlag).Value.String() }

// ConfigArgument returns the file that the only argument or --config names, "" if neither does. Two different names are an
// error.
func ConfigArgument(cmd *cobra.Command, args []string) (string, error) {
	file := ConfigFile(cmd)
	switch {
	case len(args) == 0:
		return file, nil
	case args[0] == "":
		return "", Usage(errNoName)
	case file == "" || file == args[0]:
		return args[0], nil
	}
	return "", Usage(fmt.Errorf("two configurations are given, %s and --config %s: leave one out", args[0], file))
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
