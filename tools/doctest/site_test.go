package doctest_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"slipway/shared/browsertest"
	"slipway/shared/programtest"
)

// TestFull_Site: tools/site builds versions side by side. In a browser no page with tabs is wider than a telephone, the choice of a tab
// holds on the next page, and the menu leads to the same place in another version.
func TestFull_Site(t *testing.T) {
	dist := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dist, "site", "v1.1.0-rc.1"), 0o755); err != nil { // what an earlier run built
		t.Fatal(err)
	}
	programtest.Tool(t, "zensical")
	for _, version := range []string{"v1.1.0", "v1.0.0"} {
		out, err := exec.CommandContext(t.Context(), filepath.Join(programtest.Root(t), "tools", "site"), version, dist).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, programtest.Tail(string(out)))
		}
	}
	server := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(dist, "site"))))
	t.Cleanup(server.Close)

	b := browsertest.New(t, server.URL)
	is := func(script, want string) {
		t.Helper()
		for range 100 {
			if browsertest.In(b, chromedp.Evaluate[string](script)) == want {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Errorf("%s is %q, want %q", script, browsertest.In(b, chromedp.Evaluate[string](script)), want)
	}
	b.Get("/")
	is("location.pathname", "/v1.1.0/")

	b.Window(390, 844, "dark")
	for _, p := range pages(t) {
		if strings.Contains(p.text, "\n<!--tabs-->\n") {
			b.Get("/v1.0.0/" + strings.TrimSuffix(p.path, ".md") + "/")
			is(`document.querySelector(".tabbed-set") && document.documentElement.scrollWidth <= 390 ? "fits" : "does not"`, "fits")
		}
	}

	b.Window(1280, 800, "light")
	b.Get("/v1.0.0/docs/back-up-and-restore/")
	b.Click(`//label[.="Kubernetes"]`)
	b.Get("/v1.0.0/docs/relay/first-alert/#create-an-application")
	const chosen = `[...document.querySelectorAll(".tabbed-set > input:checked")].map(i => document.querySelector("label[for=" + i.id + "]").innerText).join()`
	is(chosen, "Kubernetes,Kubernetes")
	is(`[...document.querySelectorAll(".md-version__link")].map(e => e.innerText.trim()).join()`, "v1.1.0,v1.1.0-rc.1,v1.0.0")
	browsertest.In(b, chromedp.Evaluate[any](`document.querySelector(".md-version__link").click()`))
	is("location.pathname + location.hash", "/v1.1.0/docs/relay/first-alert/#create-an-application")
}
