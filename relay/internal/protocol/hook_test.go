package protocol

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
)

const token = "A0123456789abcd"

// post parses a request for the first route of a protocol with this path and returns its batch.
func submit(t *testing.T, p Protocol, path, body string, headers ...string) (Parsed, error) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	in := &Request{Request: r, Path: map[string]string{}, Now: time.Now()}
	parts := strings.Split(r.URL.Path, "/")
	for _, route := range p.Routes {
		names := strings.Split(route.Path, "/")
		if !slices.EqualFunc(names, parts, func(name, part string) bool { return name == part || strings.HasPrefix(name, "{") }) {
			continue
		}
		for i, name := range names {
			if name, found := strings.CutPrefix(name, "{"); found {
				name, _, _ = strings.Cut(strings.TrimSuffix(name, "}"), ":")
				in.Path[name] = parts[i]
			}
		}
		break
	}
	var err error
	if in.Token, err = p.Token(in); err != nil {
		return Parsed{}, err
	}
	in.Body = []byte(body)
	if in.Token == "" && p.BodyToken {
		if in.Token, err = p.Token(in); err != nil {
			return Parsed{}, err
		}
	}
	if in.Token != token {
		t.Errorf("%s %s: token %q", p.Name, path, in.Token)
	}
	return p.Parse(in, App{ID: 7, Name: "app"})
}

// shown is a message as its protocol must make it.
type shown struct{ title, message, kind string }

func (s shown) check(t *testing.T, what string, b Parsed, err error) {
	t.Helper()
	if err != nil || len(b.Drafts) != 1 {
		t.Errorf("%s: %v, %d drafts", what, err, len(b.Drafts))
		return
	}
	if d := b.Drafts[0]; d.Title != s.title || d.Body != s.message || d.ContentType != s.kind {
		t.Errorf("%s: %q, %q, %q, want %q", what, d.Title, d.Body, d.ContentType, s)
	}
}

func replied(p Protocol, b Parsed) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	res := Result{Parsed: b}
	for range b.Drafts {
		res.Messages = append(res.Messages, post.Accepted{View: post.View{Entry: post.Entry{ID: 42, Origin: post.Origin{ApplicationID: 7, AcceptedAt: 1_800_000_000_000}, Content: post.Content{Body: "m"}}}})
	}
	p.Reply(w, res)
	return w
}

func failed(p Protocol, err error) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	p.Fail(w, err)
	return w
}

var (
	errToken = &refusal.Error{Kind: refusal.KindUnauthorized, Field: "token", Message: "No such token."}
	errFast  = &refusal.Error{Kind: refusal.KindRateLimited, Message: "Slower.", RetryAfter: 3 * time.Second}
)

// FuzzProtocols parses any body with any protocol: it ends, and what it makes is text of bounded number that renders.
func FuzzProtocols(f *testing.F) {
	protocols := []Protocol{Slack(), Mattermost(), Discord(), Teams(), Pushover(), Ntfy()}
	for i, body := range []string{
		`{"text":"*a* <http://x|y>","attachments":[{"title":"t","fields":[{"title":"f","value":1}]}],"blocks":[{"type":"rich_text","elements":[{"type":"rich_text_list","elements":[{"type":"rich_text_section","elements":[{"type":"text","text":"x","style":{"bold":true}}]}]}]}]}`,
		`{"text":"**a**","attachments":[{"text":"[x](y)"}]}`,
		`{"content":"a","embeds":[{"title":"t","fields":[{"name":"n","value":"v"}]}]}`,
		`{"attachments":[{"content":{"type":"AdaptiveCard","body":[{"type":"TextBlock","text":"x"},{"type":"ColumnSet","columns":[{"items":[{"type":"FactSet","facts":[{"title":"a","value":"b"}]}]}]}]}}]}`,
		`token=` + token + `&message=m&url=http://x&html=1`,
		`{"topic":"` + token + `","message":"m","tags":["warning","x"],"actions":[{"action":"view","label":"l","url":"http://x"}]}`,
	} {
		f.Add(uint8(i), "application/json", []byte(body))
	}
	f.Fuzz(func(t *testing.T, which uint8, contentType string, body []byte) {
		p := protocols[int(which)%len(protocols)]
		r := httptest.NewRequest(http.MethodPost, "/x", nil)
		r.Header.Set("Content-Type", contentType)
		in := &Request{Request: r, Path: map[string]string{"token": token}, Body: body, Token: token}
		b, err := p.Parse(in, App{})
		if err != nil {
			if failed(p, err).Code < 400 {
				t.Fatalf("%s: %v is answered with success", p.Name, err)
			}
			return
		}
		for _, d := range b.Drafts {
			if strings.TrimSpace(d.Title+d.Body) == "" {
				t.Fatalf("%s: an empty message from %q", p.Name, body)
			}
			if utf8.Valid(body) && !utf8.ValidString(d.Body) {
				t.Fatalf("%s: %q", p.Name, d.Body)
			}
			if html, _ := format.Body(d.ContentType, d.Body); strings.Contains(html, "<script") || strings.Contains(html, "javascript:") && strings.Contains(html, `href="javascript`) {
				t.Fatalf("%s: %q renders as %s", p.Name, body, html)
			}
		}
		replied(p, b)
	})
}

// What is no object is refused in words of JSON, not of Go.
func TestDecodeHook_IsNoObject(t *testing.T) {
	for _, body := range []string{`[]`, `"x"`, `5`} {
		_, err := submit(t, Slack(), "/hook/slack/"+token, body, "Content-Type: application/json")
		if refusal.KindOf(err) != refusal.KindInvalid || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%s: %v", body, err)
		}
	}
}
