package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"slipway/shared/build"
)

// Manual is a hidden command that writes the help of all commands as one page of Markdown. In programs built with the tag manpages
// it writes a manual page for each command instead if a directory is given, dated SOURCE_DATE_EPOCH.
func Manual(info build.Info) *cobra.Command {
	return &cobra.Command{
		Use:    "manual [DIRECTORY]",
		Short:  "Write the manual pages into a directory, or all help as Markdown",
		Args:   cobra.MaximumNArgs(1),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.DisableAutoGenTag = true
			if len(args) == 0 {
				var page strings.Builder
				fmt.Fprintf(&page, "<!-- Made by `make docs` from the commands' own help. -->\n\n# Commands of `%s`\n\n%s\n", root.Name(), inherited)
				for _, sub := range root.Commands() {
					help(&page, sub)
				}
				_, err := io.WriteString(cmd.OutOrStdout(), page.String())
				return err
			}
			return writePages(root, info, args[0])
		},
	}
}

const inherited = "[What all commands share](../command-line.md): `--json`, `--config`, exit codes."

// help writes a section for a command and for each one below it. Commands that only group others have none.
func help(page *strings.Builder, cmd *cobra.Command) {
	if !cmd.IsAvailableCommand() || cmd.Name() == "completion" {
		return
	}
	if cmd.Runnable() && !cmd.HasAvailableSubCommands() {
		text := cmd.Long
		if text == "" {
			text = cmd.Short + "."
		}
		cmd.InitDefaultHelpFlag()
		fmt.Fprintf(page, "\n## %s\n\n%s\n\n```text\n%s\n\n%s```\n", cmd.CommandPath(), markup.Replace(text), cmd.UseLine(), cmd.Flags().FlagUsagesWrapped(helpWidth))
		if cmd.Example != "" {
			fmt.Fprintf(page, "\n```sh\n%s\n```\n", strings.ReplaceAll(strings.TrimSpace(cmd.Example), "\n  ", "\n"))
		}
	}
	for _, sub := range cmd.Commands() {
		help(page, sub)
	}
}

// markup keeps Markdown from taking parts of a help text for markup.
var markup = strings.NewReplacer("<", "&lt;", "*", "\\*")
