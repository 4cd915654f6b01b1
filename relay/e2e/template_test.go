package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A template makes messages of a webhook before and after the relay is killed, and values don't become markup. One that fails
// delivers the plain form with a note. The last payload is there for previews.
func TestTemplates(t *testing.T) {
	s := newSite(t)
	s.start()
	a := s.application("hooked", "")
	set := func(fields ...string) {
		t.Helper()
		args := append([]string{"app", "set", "hooked", "--config", s.configure()}, fields...)
		if out, err := s.command(args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	post := func(payload object) {
		t.Helper()
		if status, out := s.request(http.MethodPost, "/hook/generic/"+a.token, payload, nil); status != http.StatusOK {
			t.Fatalf("%d %v", status, out)
		}
	}
	set("--template-title", "Deploy of {{.app}}", "--template-text", "**{{.by}}**", "--template-link", "{{.see}}")
	payload := object{"app": "shop", "by": "*Anna* <b>", "see": "https://ci.example/1"}
	post(payload)
	s.kill()
	s.start()
	post(payload)
	set("--template-priority", "{{.app}}")
	post(payload)
	s.eventually("three messages", func() bool { return len(s.bodies(a.room)) == 3 })
	got := s.bodies(a.room)
	for _, body := range got[:2] {
		if body != "Deploy of shop\n\n*Anna* <b>\n\nhttps://ci.example/1" {
			t.Errorf("%q", body)
		}
	}
	if !strings.Contains(got[2], "The template failed: template_priority") || !strings.Contains(got[2], "shop") {
		t.Errorf("a template that fails: %q", got[2])
	}
	path := fmt.Sprint("/application/", a.id, "/preview")
	if status, out := s.ask(http.MethodGet, path, nil); status != http.StatusOK || !strings.Contains(out.text("error"), "template_priority") {
		t.Errorf("%d %v", status, out)
	}
	status, out := s.ask(http.MethodPost, path, object{"template_priority": "{{if eq .app \"shop\"}}1{{end}}"})
	if status != http.StatusOK || out.text("title") != "Deploy of shop" || out["priority"] != 1.0 || out.text("link") != "https://ci.example/1" {
		t.Errorf("%d %v", status, out)
	}
}
