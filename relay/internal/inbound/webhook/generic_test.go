package webhook

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"slipway/relay/internal/inbound"
	"slipway/relay/internal/refusal"
)

func TestGeneric(t *testing.T) {
	const form, json, text = "application/x-www-form-urlencoded", "application/json", "text/plain"
	for _, tt := range []struct {
		contentType, body    string
		title, message, kind string
		priority             int
	}{
		{json, `{"title":"t","message":"m","priority":9}`, "t", "m", "text/plain", 2},
		{json, `{"subject":"t","msg":"m","link":"https://e.org"}`, "t", "m\n\nhttps://e.org", "text/plain", 0},
		{json, `{"body":"**m**","format":"markdown","type":"failure"}`, "", "**m**", "", 1},
		{json, `{"a":{"b":1}}`, "", "<pre><code class=\"language-json\">{\n  &#34;a&#34;: {\n    &#34;b&#34;: 1\n  }\n}</code></pre>", "text/html", 0},
		{json, `[1]`, "", "<pre><code class=\"language-json\">[\n  1\n]</code></pre>", "text/html", 0},
		{form, "title=t&text=m", "t", "m", "text/plain", 0},
		{text, "a <b> & c", "", "a <b> & c", "text/plain", 0},
		{"", "just text", "", "just text", "text/plain", 0},
		{"text/html", "<b>x</b>", "", "<b>x</b>", "text/html", 0},
		{"application/xml", "<a/>", "", "<a/>", "text/plain", 0},
		{json, `{"title":"only"}`, "", "only", "text/plain", 0},
	} {
		d, _ := read(t, Generic(), tt.body, "Content-Type: "+tt.contentType)
		if d.Title != tt.title || d.Message != tt.message || d.ContentType != tt.kind || (d.Priority == nil) != (tt.priority == 0) || d.Priority != nil && *d.Priority != tt.priority {
			t.Errorf("%s: %+v", tt.body, d)
		}
	}
	for _, body := range []string{"", "\xff", `{"title":""}x`} {
		if _, err := post(t, Generic(), inbound.App{}, body); refusal.KindOf(err) != refusal.KindInvalid && body != `{"title":""}x` {
			t.Errorf("%q: %v", body, err)
		}
	}
}

func TestHookshotAndApprise(t *testing.T) {
	if d, _ := read(t, Hookshot(), `{"text":"**a**","username":"bot"}`, "Content-Type: application/json"); d.Message != "**a**" || d.ContentType != "" {
		t.Errorf("%+v", d)
	}
	if d, _ := read(t, Hookshot(), `{"text":"a","html":"<b>a</b>"}`, "Content-Type: application/json"); d.Message != "<b>a</b>" || d.ContentType != "text/html" {
		t.Errorf("%+v", d)
	}
	r := &inbound.Request{Request: httptest.NewRequest(http.MethodPost, "/notify", nil)}
	r.Header.Set("X-Apprise-Config-ID", "key")
	if token, err := Apprise().Token(r); token != "key" || err != nil {
		t.Errorf("the key in the header: %q, %v", token, err)
	}
	if d, _ := read(t, Apprise(), `{"title":"t","body":"b","type":"failure","format":"text"}`, "Content-Type: application/json"); d.Title != "t" || d.Message != "b" || *d.Priority != 1 {
		t.Errorf("%+v", d)
	}
}
