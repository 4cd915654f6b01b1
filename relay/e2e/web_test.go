package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestPagesForEverybody checks every page on a desk and on a phone, light and
// dark: nothing overflows, covers something or is stretched, everything has a name and enough contrast.
func TestPagesForEverybody(t *testing.T) {
	s := newSite(t)
	s.start()
	a := s.application("a sender with a rather long name that has to break somewhere", "")
	s.becomes(s.post(a, object{"title": "Disk almost full", "priority": 2, "message": "# Heading\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n`" + strings.Repeat("long", 60) + "`\n\n> quote\n\n" + strings.Repeat("x", 300)}), "sent")
	long := s.post(a, object{"title": "Long", "message": strings.Repeat("a line of a log that nobody reads\n\n", 900<<10/36)})
	s.becomes(long, "sent") // two of two: the column of this hour is as high as the scale
	blocked := s.application("nowhere", "!opaque")
	s.becomes(s.say(blocked, "stuck"), "blocked")
	s.client("a phone with a rather long name that has to break somewhere")
	b := newBrowser(t, s.url)
	for _, scheme := range []string{"light", "dark"} {
		b.window(1280, 800, scheme)
		b.get("/ui/login")
		s.wantNoFaults(b, scheme+" /ui/login")
	}
	b.login("admin", adminPassword)
	pages := []string{
		"/ui/", "/ui/applications", "/ui/applications/new", "/ui/applications/1", "/ui/applications/2", "/ui/applications/1/delete", "/ui/messages", "/ui/messages?q=nothing",
		"/ui/messages/1", "/ui/messages/2", "/ui/messages/3", "/ui/rooms?check", "/ui/users", "/ui/users/new", "/ui/users/1", "/ui/account", "/ui/clients/1/delete", "/ui/nothing",
		"/ui/help/", "/ui/help/relay/pages.md", "/ui/help/reference/relay-commands.md", "/ui/help/?q=quiet+hours",
	}
	for _, width := range []int64{1280, 375} {
		for _, scheme := range []string{"light", "dark"} {
			b.window(width, 800, scheme)
			for _, page := range pages {
				b.get(page)
				s.wantNoFaults(b, fmt.Sprintf("%s at %d, %s", page, width, scheme))
			}
		}
	}
}

func (s *site) wantNoFaults(b *browser, where string) {
	s.Helper()
	for _, fault := range b.faults() {
		s.Errorf("%s: %s", where, fault)
	}
}

// TestScript: what the script adds to the pages, under their policy.
func TestScript(t *testing.T) {
	s := newSite(t)
	s.start()
	b := newBrowser(t, s.url)
	b.login("admin", adminPassword)
	b.get("/ui/applications/new")
	b.fill("#name", "typed")
	b.fill("input[name=room_id]", "!typed:localhost")
	if chosen := in(b, chromedp.Evaluate[string]("document.querySelector('input[name=target]:checked').value")); chosen != "other" {
		t.Errorf("after a room was typed %q is chosen", chosen)
	}
	b.click("#target-new")
	if text := in(b, chromedp.Evaluate[string]("document.querySelector('input[name=room_id]').value")); text != "" {
		t.Errorf("a new room is chosen and %q is still typed", text)
	}
	b.click("form.card button.primary")
	b.sees("Copy the token")
	b.click("button[data-copy=token-value]")
	b.sees("Copied")
	a := s.application("live", "!nowhere:localhost")
	b.get("/ui/messages")
	b.sees("No message yet")
	s.eventually("the page has its stream", func() bool {
		return in(b, chromedp.Evaluate[bool]("ticks = -1e9, stream?.readyState === EventSource.OPEN")) // and refreshes by that only
	})
	s.say(a, "appears by itself")
	b.sees("appears by itself")
	b.get("/ui/")
	in(b, chromedp.Evaluate[bool]("window.stays = true"))
	s.post(a, object{"title": "second", "message": "m"})
	b.sees("second")
	if !in(b, chromedp.Evaluate[bool]("window.stays === true")) {
		t.Error("the page was loaded again")
	}
}

// TestKeyboard: a page can be used without a mouse, and one sees where one is.
func TestKeyboard(t *testing.T) {
	s := newSite(t)
	s.start()
	b := newBrowser(t, s.url)
	b.login("admin", adminPassword)
	b.get("/ui/users")
	var names []string
	for range 11 {
		in(b, chromedp.KeyEvent("\t"))
		names = append(names, in(b, chromedp.Evaluate[string]("document.activeElement.innerText.trim()")))
		if outline := in(b, chromedp.Evaluate[string]("getComputedStyle(document.activeElement).outlineStyle")); outline == "none" {
			t.Errorf("%q has the focus and nothing shows it", names[len(names)-1])
		}
	}
	got := strings.Join(names, ", ")
	for _, want := range []string{"Skip to the content, Relay, Overview, Applications, Messages, Rooms, Users, Help", "Log out, New user"} {
		if !strings.Contains(got, want) {
			t.Errorf("Tab goes through %s, want %s in it", got, want)
		}
	}
}
