// Package docs_test checks the documentation: links lead somewhere, commands,
// flags and metrics exist, configurations are valid, and the pages of TestRun
// work as they stand.
//
// A block of YAML is checked as a configuration of the service whose keys it
// has. A comment above a block says otherwise:
//
//	<!-- a workflow of GitHub -->
//	<!-- not checked: GitLab alone can -->
//
// In the pages that TestRun runs a block of commands can have one of these:
//
//	<!-- not run: it needs Docker Hub -->
//	<!-- in the background until http://localhost:5000/v2/ answers -->
//	<!-- shows: a text of its output; another one -->
package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

// page is one file of the documentation.
type page struct {
	path   string // from the repository's root
	blocks []block
	prose  string // the text without blocks
}

// block is a fenced block.
type block struct {
	page string
	line int    // of its first line
	lang string // the word behind the fence
	note string // the comment above it, without its signs
	text string
}

var comment = regexp.MustCompile(`^<!-- (.*) -->$`)

// pages are all pages that people read.
func pages(t *testing.T) (all []page) {
	t.Helper()
	find := exec.CommandContext(t.Context(), "find", ".", "-name", "*.md", "-not", "-name", "reference.md", "-not", "-path", "*/.*/*", "-not", "-path", "*/testdata/*")
	find.Dir = programtest.Root(t)
	out, err := find.Output()
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(string(out))
	slices.Sort(names)
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(find.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, parse(strings.TrimPrefix(name, "./"), string(text)))
	}
	if len(all) < 10 {
		t.Fatalf("only %d pages", len(all))
	}
	return all
}

func parse(path, text string) page {
	p := page{path: path}
	var prose strings.Builder
	var open *block
	note := ""
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		fence, isFence := strings.CutPrefix(trimmed, "```")
		switch {
		case open != nil && isFence:
			p.blocks = append(p.blocks, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		case isFence:
			open = &block{page: path, line: i + 2, lang: fence, note: note}
			note = ""
		case comment.MatchString(trimmed):
			note = comment.FindStringSubmatch(trimmed)[1]
		default:
			prose.WriteString(line + "\n")
			if trimmed != "" {
				note = ""
			}
		}
	}
	p.prose = prose.String()
	return p
}
