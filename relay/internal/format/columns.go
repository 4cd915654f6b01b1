package format

import (
	"regexp"
	"strings"
)

// blanks are the indent of a line, or blanks in a line that HTML would make one.
var blanks = regexp.MustCompile(`(?m)^[ \t]+|\t[ \t]*| [ \t]+`)

const (
	noBreakSpace = "\u00a0"
	tabWidth     = 8
)

// keepColumns returns a text for HTML with its indents and columns as no-break spaces: clients collapse blanks and tabs.
func keepColumns(s string) string {
	return blanks.ReplaceAllStringFunc(s, func(run string) string {
		return strings.ReplaceAll(strings.ReplaceAll(run, "\t", strings.Repeat(noBreakSpace, tabWidth)), " ", noBreakSpace)
	})
}
