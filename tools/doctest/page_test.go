// Package doctest_test checks the documentation: links lead somewhere, commands,
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
//
// relay/e2e runs those of docs/relay that have this one:
//
//	<!-- run: relay/e2e -->
package doctest_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"slipway/shared/programtest"
	"slipway/tools/harness"
)

// page is one file of the documentation.
type page struct {
	path   string // from the repository's root
	text   string
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

// fenced is a comment, the word behind the fence, and the block's text.
var fenced = regexp.MustCompile("(?m)(?:^ *<!-- (.*) -->\n\\s*)?^ *```(.*)\n((?s:.*?))^ *```$")

// pages are all pages that people read.
func pages(t *testing.T) (all []page) {
	t.Helper()
	root := programtest.Root(t)
	find := harness.Run(t, "find", root, "-name", "*.md", "-not", "-name", "reference.md", "-not", "-path", root+"/.*/*", "-not", "-path", root+"/dist/*", "-not", "-path", "*/testdata/*")
	names := strings.Fields(find)
	slices.Sort(names)
	for _, name := range names {
		all = append(all, readPage(t, strings.TrimPrefix(name, root+"/")))
	}
	if len(all) < 10 {
		t.Fatalf("only %d pages", len(all))
	}
	return all
}

func readPage(t *testing.T, path string) page {
	t.Helper()
	text := harness.Read(t, filepath.Join(programtest.Root(t), path))
	p := page{path: path, text: text}
	for _, m := range fenced.FindAllStringSubmatchIndex(text, -1) {
		b := block{page: p.path, line: strings.Count(text[:m[6]], "\n") + 1, lang: text[m[4]:m[5]], text: text[m[6]:m[7]]}
		if m[2] >= 0 {
			b.note = text[m[2]:m[3]]
		}
		p.blocks = append(p.blocks, b)
	}
	p.prose = fenced.ReplaceAllString(text, "")
	return p
}
