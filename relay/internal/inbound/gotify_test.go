package inbound

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slipway/relay/internal/application"
)

func TestGotifyPriority(t *testing.T) {
	for in, want := range map[int]int{-5: -1, 0: 0, 1: -1, 3: -1, 4: 0, 7: 0, 8: 1, 9: 1, 10: 2, 99: 2} {
		if got := GotifyPriority(&in); got == nil || *got != want {
			t.Errorf("%d became %v, want %d", in, got, want)
		}
	}
	if GotifyPriority(nil) != nil {
		t.Error("none became one")
	}
}

// parse sends a body to the protocol of the native API and Gotify's that takes it.
func parse(t *testing.T, app App, body string, headers ...string) (name string, d Draft) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/message", nil)
	for _, h := range headers {
		key, value, _ := strings.Cut(h, ": ")
		r.Header.Set(key, value)
	}
	p := Native()
	if g := Gotify(); g.Routes[0].Match(r) {
		p = g
	}
	in := &Request{Request: r}
	var err error
	if in.Token, err = p.Token(in); err != nil {
		t.Fatal(err)
	}
	in.Body = []byte(body)
	if in.Token == "" {
		if in.Token, err = p.Token(in); err != nil {
			t.Fatal(err)
		}
	}
	if in.Token != "A" {
		t.Errorf("%s %q: token %q, want A", body, headers, in.Token)
	}
	b, err := p.Parse(in, app)
	if err != nil || len(b.Drafts) != 1 {
		t.Fatalf("%s %q: %v, %d drafts", body, headers, err, len(b.Drafts))
	}
	return p.Name, b.Drafts[0]
}

// Proxmox sends the token in two headers; what a notification opens and shows in Gotify's apps are links in the room.
func TestGotify_Extras(t *testing.T) {
	const body = `{"title":"vzdump","message":"**ok**","priority":1,"extras":{"client::display":{"contentType":"text/markdown"},"client::notification":{"click":{"url":"https://e.org/1"},"bigImageUrl":"https://e.org/1.png"}}}`
	_, d := parse(t, App{}, body, "Authorization: Bearer A", "X-Gotify-Key: A")
	if d.Message != "**ok**\n\nhttps://e.org/1\n\nhttps://e.org/1.png" || d.ContentType != "" || *d.Priority != -1 {
		t.Errorf("%+v", d)
	}
	_, d = parse(t, App{}, `{"message":"m","extras":{"client::notification":{"click":{"url":"javascript:x"}}}}`, "X-Gotify-Key: A")
	if d.Message != "m" {
		t.Errorf("%q", d.Message)
	}
}

// The place of the token decides how priority and text are meant, unless the application does.
func TestScaleAndFormat(t *testing.T) {
	const inBody, without = `{"token":"A","message":"m","priority":2}`, `{"message":"m","priority":2}`
	for _, tt := range []struct {
		what     string
		app      App
		body     string
		header   string
		protocol string
		priority int
		format   string
	}{
		{"in the body", App{}, inBody, "", "api", 2, ""},
		{"in the body, the application says Gotify", App{Scale: application.ScaleGotify}, inBody, "", "api", -1, ""},
		{"in the body, the application says plain", App{Format: application.FormatPlain}, inBody, "", "api", 2, "text/plain"},
		{"Bearer", App{}, without, "Authorization: Bearer A", "gotify", -1, ""},
		{"Bearer, the application says native", App{Scale: application.ScaleNative}, without, "Authorization: Bearer A", "gotify", 2, ""},
		{"Gotify", App{}, without, "X-Gotify-Key: A", "gotify", -1, "text/plain"},
		{"Gotify, the application says Markdown", App{Format: application.FormatMarkdown}, without, "X-Gotify-Key: A", "gotify", -1, ""},
		{"Gotify, the application says HTML", App{Format: application.FormatHTML}, without, "X-Gotify-Key: A", "gotify", -1, "text/html"},
	} {
		name, d := parse(t, tt.app, tt.body, "Content-Type: application/json", tt.header)
		if name != tt.protocol || d.Priority == nil || *d.Priority != tt.priority || d.ContentType != tt.format {
			t.Errorf("%s: %s %+v", tt.what, name, d)
		}
	}
}
