package e2e

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
)

// Templates are tried over the last payload before they are saved, on a desk and on a phone.
func TestPreviewInBrowser(t *testing.T) {
	s := newSite(t)
	s.start()
	a := s.application("hooked", "")
	if status, out := s.request(http.MethodPost, "/hook/generic/"+a.token, object{"app": "shop", "stars": "*"}, nil); status != http.StatusOK {
		t.Fatalf("%d %v", status, out)
	}
	b := newBrowser(t, s.url)
	b.login("admin", adminPassword)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 390} {
			b.window(width, 900, scheme)
			b.get("/ui/applications/1")
			b.click("#settings ~ form details summary")
			in(b, chromedp.SetValue("#template_title", "Deploy of {{.app}}"))
			in(b, chromedp.SetValue("#template_text", "a {{.stars}} b"))
			b.click("button[formaction$=preview]")
			b.sees("Preview with the last payload")
			b.sees("Deploy of shop")
			b.sees(`a \* b`)
			if faults := b.faults(); len(faults) > 0 {
				t.Errorf("%s, %d px: %q", scheme, width, faults)
			}
		}
	}
	if _, out := s.ask(http.MethodGet, "/application/1", nil); out.text("template_title") != "" {
		t.Errorf("the preview has saved %q", out.text("template_title"))
	}
}
