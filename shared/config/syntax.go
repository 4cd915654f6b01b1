package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of the search for the start of what is broken: lines, and bytes of the file.
const (
	maxBack     = 50
	maxSearched = 256 << 10
)

var yamlLine = regexp.MustCompile(`^line \d+: `)

// syntaxError says on which line the source stops being YAML. The parser names a line before or after it, the first one of
// the section, or none.
func syntaxError(source []byte, err error) error {
	text := yamlText(err)
	lines := bytes.SplitAfter(source, []byte("\n"))
	// Whatever follows the line, the parser says the same; and it says something else of what stands before.
	at := 1 + sort.Search(len(lines)-1, func(n int) bool {
		return yamlText(yamlProblem(bytes.Join(lines[:n+1], nil))) == text
	})
	from := at
	for len(source) <= maxSearched && from > 1 && at-from < maxBack && yamlProblem(bytes.Join(lines[:from-1], nil)) != nil {
		from--
	}
	problem := fmt.Sprintf("not YAML: line %d: %s", at, yamlLine.ReplaceAllString(text, ""))
	for said, hint := range yamlHints {
		if strings.Contains(text, said) {
			problem += " (" + hint + ")"
		}
	}
	if strings.Contains(text, "cannot start any token") && bytes.HasPrefix(bytes.TrimLeft(lines[at-1], " "), []byte("\t")) {
		problem += " (a tab: indent with spaces)"
	}
	if from < at {
		problem += fmt.Sprintf(", in what begins on line %d", from)
	}
	return errors.New(problem)
}

// yamlHints say what to look for where the parser's words do not.
var yamlHints = map[string]string{
	"mapping values are not allowed": "put a value with a colon into quotes, or correct the indentation",
	"did not find expected key":      "correct the indentation or the quotes",
	"violates indentation":           "indent with spaces",
}

// yamlProblem is what the parser says of the first document of a source, nil if it can be read or is empty.
func yamlProblem(source []byte) error {
	var doc yaml.Node
	err := yaml.NewDecoder(bytes.NewReader(source)).Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func yamlText(err error) string {
	if err == nil {
		return ""
	}
	return strings.TrimPrefix(err.Error(), "yaml: ")
}
