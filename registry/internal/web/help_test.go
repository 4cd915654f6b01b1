package web

import (
	"testing"

	"slipway/docs"
	"slipway/shared/docpages/docpagestest"
)

// TestHelp: the documentation is there without a login, with all that it links to.
func TestHelp(t *testing.T) {
	b := newSite(t).browser()
	docpagestest.Links(t, files, docs.Files)
	docpagestest.Crawl(t, func(path string) (int, string) { b.get(path); return b.status, b.page })
	b.get("/ui/help/registry/team.md")
	b.want(200, `aria-current="page">Help</a>`, `href="/ui/login?next=`, "v1.2.3")
	b.get("/ui/help")
	b.want(200, "<h1 id=\"documentation\">")
	b.get("/ui/help/?q=garbage+collection")
	b.want(200, `<a href="/ui/help/registry/delete-and-free-space.md`, "-<article")
	b.get("/ui/help/?q=%3Cscript%3E+nothing")
	b.want(200, "No section has all of these words.", `value="&lt;script&gt; nothing"`, "-<script>")
	for _, path := range []string{"no.md", "registry", "registry/", "../web.go", "..%2f..%2fgo.mod", "%2e%2e/docs.go", "docs.go", "//README.md", "README.md/"} {
		b.get("/ui/help/" + path)
		b.want(404)
	}
}
