package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"slipway/shared/browsertest"
)

// browser is a tab of a real Chromium.
type browser struct {
	*testing.T
	tab *browsertest.Browser
}

func newBrowser(t *testing.T, base string) *browser {
	t.Helper()
	return &browser{t, browsertest.New(t, base)}
}

// in runs an action of the browser and wants it to succeed.
func in[T any](b *browser, action chromedp.Action[T]) T {
	b.Helper()
	return browsertest.In(b.tab, action)
}

func (b *browser) window(width, height int64, scheme string) {
	b.Helper()
	b.tab.Window(width, height, scheme)
}

func (b *browser) get(path string) {
	b.Helper()
	b.tab.Get(path)
}

func (b *browser) fill(field, text string) {
	b.Helper()
	b.tab.Fill(field, text)
}

func (b *browser) click(what string) {
	b.Helper()
	b.tab.Click(what)
}

func (b *browser) text() string {
	b.Helper()
	return b.tab.Text()
}

func (b *browser) sees(what string) {
	b.Helper()
	b.tab.Sees(what)
}

func (b *browser) faults() []string {
	b.Helper()
	return b.tab.Faults()
}

// reloads loads a page again and again until it shows something.
func (b *browser) reloads(path, what string) {
	b.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if b.get(path); strings.Contains(b.text(), what) {
			return
		}
	}
	b.Fatalf("%s never shows %q:\n%s", path, what, b.text())
}

func (b *browser) login(name, password string) {
	b.Helper()
	b.get("/")
	b.sees("Log in")
	b.fill("#name", name)
	in(b, chromedp.SendKeys("#password", password+"\r")) // Enter sends the form
	b.sees("Overview")
}
