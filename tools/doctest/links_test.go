package doctest_test

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

var (
	codeSpan = regexp.MustCompile("`[^`]*`")
	linkTo   = regexp.MustCompile(`!?\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset|href)="([^"]+)"`)
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	anchor   = regexp.MustCompile(`<a id="([^"]+)">`)
	dropped  = regexp.MustCompile(`[^\p{L}\p{N}\- _]`) // of a heading, in its anchor on GitHub
)

// anchorsOf are the anchors of each page: those of its headings, and its own.
func anchorsOf(all []page) map[string][]string {
	anchors := map[string][]string{}
	for _, p := range all {
		for _, m := range heading.FindAllStringSubmatch(p.prose, -1) {
			anchors[p.path] = append(anchors[p.path], strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
		}
		for _, m := range anchor.FindAllStringSubmatch(p.prose, -1) {
			anchors[p.path] = append(anchors[p.path], m[1])
		}
	}
	return anchors
}

// TestLinks: each link inside the repository leads to a file and to a heading in
// it, and each page of docs/ can be reached from docs/README.md.
func TestLinks(t *testing.T) {
	root, all := programtest.Root(t), pages(t)
	anchors, leads := anchorsOf(all), map[string][]string{}
	for _, p := range all {
		for _, m := range linkTo.FindAllStringSubmatch(codeSpan.ReplaceAllString(p.prose, ""), -1) {
			target, fragment, _ := strings.Cut(m[1]+m[2], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file := filepath.Join(filepath.Dir(p.path), cmp.Or(target, filepath.Base(p.path)))
			leads[p.path] = append(leads[p.path], file)
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s: %s leads nowhere", p.path, m[0])
			} else if fragment != "" && !slices.Contains(anchors[file], fragment) {
				t.Errorf("%s: %s has no heading #%s", p.path, file, fragment)
			}
		}
	}
	reached := map[string]bool{}
	for queue := []string{"docs/README.md"}; len(queue) > 0; queue = queue[1:] {
		if !reached[queue[0]] {
			queue = append(queue, leads[queue[0]]...)
		}
		reached[queue[0]] = true
	}
	for _, p := range all {
		if strings.HasPrefix(p.path, "docs/") && !reached[p.path] {
			t.Errorf("%s cannot be reached from docs/README.md", p.path)
		}
	}
}
