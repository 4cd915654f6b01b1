package webhook

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"slipway/relay/internal/protocol"
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
		{json, `{"message":"m","priority":"high"}`, "", "m", "text/plain", 1},
		{json, `{"message":"m","priority":"P1"}`, "", "m\n\npriority: P1", "text/plain", 0},
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
		{json, `{"reason":"BackOff","message":"Back-off restarting failed container","type":"Warning","count":3,"none":null,"empty":"","involvedObject":{"kind":"Pod","namespace":"shop","name":"backend-x2x4k"}}`, "", "Back-off restarting failed container\n\ncount: 3\ninvolvedObject.kind: Pod\ninvolvedObject.name: backend-x2x4k\ninvolvedObject.namespace: shop\nreason: BackOff\ntype: Warning", "text/plain", 0},
		{text + "; charset=UTF-8", `{"Type":"SubscriptionConfirmation","Message":"visit the SubscribeURL","SubscribeURL":"https://sns.example.org/?Action=ConfirmSubscription&Token=2336"}`, "", "visit the SubscribeURL\n\nSubscribeURL: https://sns.example.org/?Action=ConfirmSubscription&Token=2336\nType: SubscriptionConfirmation", "text/plain", 0},
		{json, `{"title":"t","severity":"error"}`, "t", "severity: error", "text/plain", 0},
		{json, `{"text":"**m**","format":"markdown","host":"<a>"}`, "", "<p><strong>m</strong></p><p>host: &lt;a&gt;</p>", "text/html", 0},
		{json, `{"message":{"Disk full":"95% used"}}`, "", "Disk full: 95% used", "text/plain", 0},
		{form, "host=web&state=down", "", "<pre><code class=\"language-json\">{\n  &#34;host&#34;: &#34;web&#34;,\n  &#34;state&#34;: &#34;down&#34;\n}</code></pre>", "text/html", 0},
	} {
		d, _ := read(t, Generic(), tt.body, "Content-Type: "+tt.contentType)
		if d.Title != tt.title || d.Body != tt.message || d.ContentType != tt.kind || (d.Priority == nil) != (tt.priority == 0) || d.Priority != nil && *d.Priority != tt.priority {
			t.Errorf("%s: %+v", tt.body, d)
		}
	}
	for _, body := range []string{"", "\xff", `{"title":""}x`} {
		if _, err := submit(t, Generic(), protocol.App{}, body); refusal.KindOf(err) != refusal.KindInvalid && body != `{"title":""}x` {
			t.Errorf("%q: %v", body, err)
		}
	}
}

// Apprise's API has its fields in the address as well, which also maps those of the sender.
func TestApprise_Query(t *testing.T) {
	for _, tt := range []struct {
		query, body, title, message, kind string
		priority                          int
	}{
		{"?title=Backup+failed&type=failure&format=markdown", `{"body":"**x**"}`, "Backup failed", "**x**", "", 1},
		{"?title=other", `{"title":"t","body":"x","tag":"all"}`, "t", "x", "text/plain", 0},
		{"?:alert=body&:host=title", `{"alert":"down","host":"web","other":1}`, "web", "down", "text/plain", 0},
	} {
		r := &protocol.Request{Request: httptest.NewRequest(http.MethodPost, "/notify/x"+tt.query, nil), Body: []byte(tt.body)}
		b, err := Apprise().Parse(r, protocol.App{})
		if err != nil || len(b.Drafts) != 1 {
			t.Fatalf("%s: %v", tt.query, err)
		}
		if d := b.Drafts[0]; d.Title != tt.title || d.Body != tt.message || d.ContentType != tt.kind || (d.Priority == nil) != (tt.priority == 0) {
			t.Errorf("%s: %+v", tt.query, d)
		}
	}
}

func TestHookshotAndApprise(t *testing.T) {
	if d, _ := read(t, Hookshot(), `{"text":"**a**","username":"bot"}`, "Content-Type: application/json"); d.Body != "**a**" || d.ContentType != "" {
		t.Errorf("%+v", d)
	}
	if d, _ := read(t, Hookshot(), `{"text":"a","html":"<b>a</b>"}`, "Content-Type: application/json"); d.Body != "<b>a</b>" || d.ContentType != "text/html" {
		t.Errorf("%+v", d)
	}
	r := &protocol.Request{Request: httptest.NewRequest(http.MethodPost, "/notify", nil)}
	r.Header.Set("X-Apprise-Config-ID", "key")
	if token, err := Apprise().Token(r); token != "key" || err != nil {
		t.Errorf("the key in the header: %q, %v", token, err)
	}
	if d, _ := read(t, Apprise(), `{"title":"t","body":"b","type":"failure","format":"text"}`, "Content-Type: application/json"); d.Title != "t" || d.Body != "b" || *d.Priority != 1 {
		t.Errorf("%+v", d)
	}
}

// Of several names for one thing the same wins each time: a repeated request makes the same message.
func TestGeneric_SeveralNames(t *testing.T) {
	const want = "m\n\nbody: b\nlink: https://e.org/l\nmsg: x\nsubject: s\ntext: y\n\nhttps://e.org/u"
	for range 50 {
		for _, tt := range []struct{ contentType, body string }{
			{"application/json", `{"subject":"s","text":"y","msg":"x","body":"b","message":"m","title":"t","link":"https://e.org/l","url":"https://e.org/u"}`},
			{"application/x-www-form-urlencoded", "subject=s&text=y&msg=x&body=b&message=m&title=t&link=https://e.org/l&url=https://e.org/u"},
		} {
			if d, _ := read(t, Generic(), tt.body, "Content-Type: "+tt.contentType); d.Title != "t" || d.Body != want {
				t.Fatalf("%s: %q, %q", tt.contentType, d.Title, d.Body)
			}
		}
	}
}
