package web

import (
	"testing"

	"slipway/docs"
	"slipway/shared/docpages/docpagestest"
)

// TestHelp: the documentation is there without a login, with all that it links to.
func TestHelp(t *testing.T) {
	b := newBrowser(t)
	docpagestest.Links(t, files, docs.Files)
	docpagestest.Crawl(t, func(path string) (int, string) { b.get(path); return b.status, b.page })
	b.get("/ui/help/relay/rooms.md")
	b.want(200, `aria-current="page">Help</a>`, `href="/ui/login?next=%2Fui%2Fhelp%2Frelay%2Frooms.md"`, "-/ui/applications", "v1.2.3")
	b.get("/ui/help")
	b.want(200, "<h1 id=\"documentation\">")
	b.get("/ui/help/?q=quiet+hours")
	b.want(200, `<a href="/ui/help/relay/`, "-<article")
	b.get("/ui/help/?q=%3Cscript%3E+nothing")
	b.want(200, "No section has all of these words.", `value="&lt;script&gt; nothing"`, "-<script>")
	for _, path := range []string{"no.md", "relay", "relay/", "../web.go", "..%2f..%2fgo.mod", "%2e%2e/docs.go", "docs.go", "//README.md", "README.md/"} {
		b.get("/ui/help/" + path)
		b.want(404)
	}
	b.admin()
	b.get("/ui/help/relay/rooms.md")
	b.want(200, "Log out", "/ui/applications")
}
