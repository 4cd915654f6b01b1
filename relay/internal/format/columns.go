package format

import (
	"regexp"
	"strings"
	"unicode"
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

// TrimLines returns a text without empty lines at its start and white space at its end. It keeps the indent of the first line.
func TrimLines(s string) string {
	s = strings.TrimRightFunc(s, unicode.IsSpace)
	text := strings.TrimLeftFunc(s, unicode.IsSpace)
	return s[strings.LastIndexByte(s[:len(s)-len(text)], '\n')+1:]
}
