package docs_test

import (
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
)

// TestLinks: each link inside the repository leads to a file, and to a heading
// that is in it.
func TestLinks(t *testing.T) {
	root := programtest.Root(t)
	anchors := map[string][]string{}
	all := pages(t)
	for _, p := range all {
		anchors[p.path] = slugs(p.prose)
	}
	for _, p := range all {
		for _, m := range linkTo.FindAllStringSubmatch(codeSpan.ReplaceAllString(p.prose, ""), -1) {
			target, fragment, _ := strings.Cut(m[1]+m[2], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file := p.path
			if target != "" {
				file = filepath.Join(filepath.Dir(p.path), target)
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s: %s leads nowhere", p.path, m[0])
			} else if fragment != "" && !slices.Contains(anchors[file], fragment) {
				t.Errorf("%s: %s has no heading #%s", p.path, file, fragment)
			}
		}
	}
}

// slugs are the anchors that GitHub makes of headings.
func slugs(text string) []string {
	var all []string
	dropped := regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}

// TestIndex: every page of docs/ can be reached from docs/README.md.
func TestIndex(t *testing.T) {
	reached := map[string]bool{}
	byPath := map[string]page{}
	for _, p := range pages(t) {
		byPath[p.path] = p
	}
	var visit func(path string)
	visit = func(path string) {
		if reached[path] {
			return
		}
		reached[path] = true
		for _, m := range linkTo.FindAllStringSubmatch(byPath[path].prose, -1) {
			target, _, _ := strings.Cut(m[1], "#")
			visit(filepath.Join(filepath.Dir(path), target))
		}
	}
	visit("docs/README.md")
	for path := range byPath {
		decision := strings.HasPrefix(path, "docs/decisions/") // docs/decisions is linked as a whole
		if strings.HasPrefix(path, "docs/") && !reached[path] && !decision {
			t.Errorf("%s cannot be reached from docs/README.md", path)
		}
	}
}
