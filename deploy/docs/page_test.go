// Package docs_test holds the documentation against what it is about: links
// lead somewhere, commands exist and run, configurations are valid.
//
// Each block of shell commands in README.md, docs/ and the modules' pages is
// run as it stands, unless a comment above it says why not:
//
//	<!-- not run: it needs Docker Hub -->
//	<!-- in the background until http://localhost:5000/v2/ answers -->
//	<!-- shows: a text of its output; another one -->
//
// A block of YAML is held against the service whose keys it has; for others a
// comment says what they are:
//
//	<!-- a workflow of GitHub -->
//	<!-- not checked: GitLab alone can -->
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

// page is one file of the documentation, apart into what is checked.
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

// pages are all files of the documentation that people read.
func pages(t *testing.T) []page {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "find", ".", "-name", "*.md", "-not", "-path", "*/.*/*", "-not", "-path", "*/testdata/*")
	cmd.Dir = programtest.Root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []page
	names := strings.Fields(string(out))
	slices.Sort(names)
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(cmd.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if base := filepath.Base(name); base != "reference.md" { // it is part of docs/configuration
			all = append(all, parse(strings.TrimPrefix(name, "./"), string(text)))
		}
	}
	if len(all) < 10 {
		t.Fatalf("found %d pages only", len(all))
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

func TestParse(t *testing.T) {
	p := parse("x.md", "# A\n\n<!-- not run: why -->\n\n```sh\none\n  two\n```\ntext\n```yaml\na: b\n```\n")
	want := []block{{"x.md", 6, "sh", "not run: why", "one\n  two\n"}, {"x.md", 11, "yaml", "", "a: b\n"}}
	if !slices.Equal(p.blocks, want) || p.prose != "# A\n\n\ntext\n\n" {
		t.Errorf("got %+v", p)
	}
}
