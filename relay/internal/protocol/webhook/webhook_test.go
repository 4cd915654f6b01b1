package webhook

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
)

// post parses a request with a protocol.
func submit(t *testing.T, p protocol.Protocol, app protocol.App, body string, headers ...string) (protocol.Parsed, error) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(body))
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	return p.Parse(&protocol.Request{Request: r, Body: []byte(body), Now: time.Now(), Token: "A"}, app)
}

// read returns the title and text of the only message of a request.
func read(t *testing.T, p protocol.Protocol, body string, headers ...string) (post.Draft, string) {
	t.Helper()
	b, err := submit(t, p, protocol.App{}, body, headers...)
	if err != nil || len(b.Drafts) != 1 {
		t.Fatalf("%s %v: %v, %d drafts", body, headers, err, len(b.Drafts))
	}
	d := b.Drafts[0]
	_, text := format.Body(d.ContentType, d.Body)
	return d, text
}

func all() []protocol.Protocol {
	return []protocol.Protocol{Alertmanager(), Grafana(), GitHub(), GitLab(), Gitea(), Generic(), Hookshot(), Apprise(), UptimeKuma(), Healthchecks(), Servarr(), PushBits(), Registry(nil)}
}

func TestRepliesAndFailures(t *testing.T) {
	for _, p := range all() {
		w := httptest.NewRecorder()
		p.Reply(w, protocol.Result{Messages: []post.Accepted{{}}, Accepted: 1})
		if w.Code/100 != 2 {
			t.Errorf("%s answers %d", p.Name, w.Code)
		}
		overload := http.StatusTooManyRequests
		switch p.Name {
		case "alertmanager", "grafana", "uptimekuma", "healthchecks", "pushbits": // they repeat nothing after 429
			overload = http.StatusServiceUnavailable
		}
		for field, want := range map[string]int{"": overload, "token": http.StatusTooManyRequests} {
			w = httptest.NewRecorder()
			p.Fail(w, &refusal.Error{Kind: refusal.KindRateLimited, Field: field, RetryAfter: time.Second})
			if w.Code != want || w.Header().Get("Retry-After") != "1" {
				t.Errorf("%s answers overload with %d, want %d", p.Name, w.Code, want)
			}
		}
	}
}

// FuzzProtocols parses any body with any protocol: it ends, and what it makes is text of bounded number that renders.
func FuzzProtocols(f *testing.F) {
	for i, body := range []string{firing, firing, pushed, gitlabPush, pushed, `{"title":"t","message":"m","url":"http://x"}`, `{"text":"*a*"}`, `{"body":"b"}`, kumaDown, `{"name":"n","status":"down"}`, `{"eventType":"Grab"}`, firing, pushV2} {
		f.Add(uint8(i), "push", "application/json", []byte(body))
	}
	f.Fuzz(func(t *testing.T, which uint8, event, contentType string, body []byte) {
		p := all()[int(which)%len(all())]
		r := httptest.NewRequest(http.MethodPost, "/hook", nil)
		if p.Name == "registry" {
			contentType = "" // it takes no other body
		}
		r.Header = http.Header{"Content-Type": {contentType}, "X-Github-Event": {event}, "X-Gitea-Event": {event}}
		b, err := p.Parse(&protocol.Request{Request: r, Body: body}, protocol.App{})
		if err != nil {
			return
		}
		if len(b.Drafts) > maxEvents {
			t.Fatalf("%s: %d messages", p.Name, len(b.Drafts))
		}
		for _, d := range b.Drafts {
			if strings.TrimSpace(d.Title+d.Body) == "" || len(d.IdempotencyKey) > 128 && r.Header.Get("Idempotency-Key") == "" {
				t.Fatalf("%s: %+v from %q", p.Name, d, body)
			}
			if utf8.Valid(body) && !utf8.ValidString(d.Body) {
				t.Fatalf("%s: %q", p.Name, d.Body)
			}
			if html, _ := format.Body(d.ContentType, d.Body); strings.Contains(html, "<script") || strings.Contains(html, `href="javascript`) {
				t.Fatalf("%s: %q renders as %s", p.Name, body, html)
			}
		}
	})
}
