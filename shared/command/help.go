package command

import (
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// Add adds commands to the program. Its help lists them below the title.
func Add(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title + ":"})
	for _, cmd := range commands {
		cmd.GroupID = title
	}
	root.AddCommand(commands...)
}

// helpWidth is the length of a line of help.
const helpWidth = 90

// wrapHelp wraps the help of a command and its subcommands.
func wrapHelp(cmd *cobra.Command) {
	cmd.Long = wrap(cmd.Long)
	for _, sub := range cmd.Commands() {
		wrapHelp(sub)
	}
}

// usageTemplate is cobra's, with lines of helpWidth.
func usageTemplate(cobras string) string {
	return strings.ReplaceAll(cobras, ".FlagUsages |", ".FlagUsagesWrapped 90 |")
}

// wrap breaks lines that are longer than helpWidth at spaces.
func wrap(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		var b strings.Builder
		width := 0
		for word := range strings.SplitSeq(line, " ") {
			n := utf8.RuneCountInString(word)
			switch {
			case b.Len() > 0 && width+1+n > helpWidth:
				b.WriteByte('\n')
				width = n
			case b.Len() > 0:
				b.WriteByte(' ')
				width += 1 + n
			default:
				width = n
			}
			b.WriteString(word)
		}
		if utf8.RuneCountInString(line) > helpWidth {
			lines[i] = b.String()
		}
	}
	return strings.Join(lines, "\n")
}
