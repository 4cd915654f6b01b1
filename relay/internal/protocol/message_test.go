package protocol

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/request"
)

// FuzzSubmission: whatever a body says and however it is called, reading it
// ends, and what is read out of JSON is what encoding/json reads.
func FuzzSubmission(f *testing.F) {
	for _, seed := range []struct{ kind, body string }{
		{"application/json", `{"token":"A","title":"t","message":"m","priority":2,"extras":{"client::display":{"contentType":"text/plain"}}}`},
		{"application/json", `{"id":0,"date":"0001-01-01T00:00:00Z","message":"\ud83d\ude00\u0000","message":"n"}`},
		{"application/json", ` { "a" : [1,{"b":"}"}] , "message":null }`},
		{"application/x-www-form-urlencoded", "message=m&token=A&priority=1"},
		{"multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"message\"\r\n\r\nm\r\n--x--\r\n"},
		{"multipart/form-data; boundary=x", "--x\r\n\r\n--x"},
		{"", "{\"message\":\"\xff\"}"},
		{"text/plain", strings.Repeat("[", 100)},
		{"application/json", `{"":{}}`},
		{"application/json", `{"Title":"t","MESSAGE":"m","Priority":1}`},
	} {
		f.Add(seed.kind, []byte(seed.body))
	}
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		r, err := http.NewRequest(http.MethodPost, "/message?priority=1&title=q", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header["Content-Type"] = []string{kind}
		s, err := submissionOf(&Request{Request: r, Body: body})
		if err != nil || !request.IsJSON(body) || strings.HasPrefix(kind, "multipart/") {
			return
		}
		compare(t, s, body)
	})
}

// compare reads the body the slow way.
func compare(t *testing.T, s *submission, body []byte) {
	t.Helper()
	names := map[string]any{}
	var want struct {
		Message, Priority any // in any case, as Gotify reads them
	}
	if err := errors.Join(json.Unmarshal(body, &names), json.Unmarshal(body, &want)); err != nil {
		t.Fatalf("%q is read, and encoding/json says %v", body, err)
	}
	for name := range names {
		if strings.IndexFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) >= 0 {
			return // encoding/json folds more than ASCII
		}
	}
	if m, ok := want.Message.(string); ok && m != s.draft.Body {
		t.Fatalf("the message of %q is %q, want %q", body, s.draft.Body, m)
	}
	if p, ok := want.Priority.(float64); ok && (s.draft.Priority == nil || float64(*s.draft.Priority) != p) {
		t.Fatalf("the priority of %q is %v, want %v", body, s.draft.Priority, p)
	}
	if !utf8.ValidString(s.draft.Body) || !utf8.ValidString(s.draft.Title) {
		t.Fatalf("%q gives text that is no UTF-8", body)
	}
}

// An address adds no markup to a text in Markdown.
func TestAddLinks_Markdown(t *testing.T) {
	d := post.Draft{Content: post.Content{Body: "text"}}
	AddLinks(&d, []string{"https://e.org/a_b?c=*d*", "https://e.org/ **now** [x](https://evil.example)"})
	html, _ := format.Body(d.ContentType, d.Body)
	if strings.Contains(html, "<strong>") || strings.Contains(html, `href="https://evil`) || !strings.Contains(html, `<a href="https://e.org/a_b?c=*d*">https://e.org/a_b?c=*d*</a>`) {
		t.Error(html)
	}
}
