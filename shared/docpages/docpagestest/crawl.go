// Package docpagestest tests the documentation as a service serves it.
package docpagestest

import (
	"html"
	"io/fs"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

var (
	link   = regexp.MustCompile(`(?:href|src|srcset)="([^"]+)"`)
	anchor = regexp.MustCompile(`id="([^"]+)"`)

	intoHelp = regexp.MustCompile(`/help/([^"#]+\.md)`)
)

// Crawl follows all links from the first page of the help on. Each must lead to something, and to an anchor in it if it names
// one. get makes a request without a session and returns the status and the body. The frame's own links are left alone.
func Crawl(t *testing.T, get func(path string) (status int, body string)) {
	t.Helper()
	const start = "/ui/help/"
	type target struct{ from, anchor string }
	wanted, bodies := map[string][]target{}, map[string]string{}
	pages := 0
	for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if _, done := bodies[at]; done {
			continue
		}
		status, body := get(at)
		bodies[at] = body
		if status != http.StatusOK {
			t.Errorf("%s: status %d; a link on %s leads there", at, status, wanted[at][0].from)
			continue
		}
		_, article, isPage := strings.Cut(body, "<article")
		if !isPage {
			continue
		}
		pages++
		article, _, _ = strings.Cut(article, "</article>")
		if strings.Contains(article, "<script") || strings.Contains(article, " style=") || strings.Contains(article, " onclick=") {
			t.Errorf("%s has what the policy of the pages forbids", at)
		}
		ids := map[string]bool{}
		for _, m := range anchor.FindAllStringSubmatch(article, -1) {
			if ids[m[1]] {
				t.Errorf("%s has two elements with the id %s", at, m[1])
			}
			ids[m[1]] = true
		}
		for _, m := range link.FindAllStringSubmatch(article, -1) {
			base, err := url.Parse(at)
			if err != nil {
				t.Fatal(err)
			}
			to, err := base.Parse(html.UnescapeString(m[1]))
			if err != nil || to.Host == "" && !strings.HasPrefix(to.Path, start) {
				t.Errorf("%s: a link to %s", at, m[1])
			} else if to.Host == "" && to.Scheme == "" {
				wanted[to.Path] = append(wanted[to.Path], target{at, to.Fragment})
				queue = append(queue, to.Path)
			}
		}
	}
	for path, targets := range wanted {
		for _, to := range targets {
			if to.anchor != "" && !strings.Contains(bodies[path], `id="`+to.anchor+`"`) {
				t.Errorf("%s: %s has no #%s", to.from, path, to.anchor)
			}
		}
	}
	if pages < 50 {
		t.Errorf("only %d pages were found", pages)
	}
}

// Links tests that all links from templates into the help lead to a page in docs.
func Links(t *testing.T, templates, docs fs.FS) {
	t.Helper()
	found := 0
	err := fs.WalkDir(templates, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(templates, name)
		for _, m := range intoHelp.FindAllSubmatch(text, -1) {
			found++
			if _, err := fs.Stat(docs, string(m[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		return err
	})
	if err != nil || found == 0 {
		t.Errorf("%d links, %v", found, err)
	}
}
