package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Examples are the examples of a program's commands, one line each, by the command's path without the program's name,
// such as "config check".
type Examples map[string][]string

// Set gives each command below root its examples. A command that only groups others shows the first example of each of
// them. Set panics where a name is no command's.
func (e Examples) Set(root *cobra.Command) {
	for name := range e {
		if cmd, _, err := root.Find(strings.Fields(name)); err != nil || path(cmd) != name {
			panic(fmt.Sprintf("there is no command %q to have examples", name))
		}
	}
	for _, cmd := range root.Commands() {
		e.set(cmd)
	}
}

// set gives cmd and those below it their examples and returns those of cmd.
func (e Examples) set(cmd *cobra.Command) []string {
	all := e[path(cmd)]
	subs := cmd.Commands()
	for _, sub := range subs {
		of := e.set(sub)
		if len(subs) > 1 && len(of) > 1 {
			of = of[:1]
		}
		all = append(all[:len(all):len(all)], of...)
	}
	if len(all) > 0 {
		cmd.Example = "  " + strings.Join(all, "\n  ")
	}
	return all
}

// path is the command's path without the program's name.
func path(cmd *cobra.Command) string {
	_, below, _ := strings.Cut(cmd.CommandPath(), " ")
	return below
}
