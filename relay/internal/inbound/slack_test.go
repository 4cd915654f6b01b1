package inbound

import (
	"net/url"
	"testing"

	"slipway/relay/internal/refusal"
)

func TestSlack(t *testing.T) {
	const path = "/services/T1/B1/" + token
	for body, want := range map[string]shown{
		`{"text":"*Deployed* <https://e.org|v2> &amp; more"}`: {"", `<p><strong>Deployed</strong> <a href="https://e.org">v2</a> &amp; more</p>`, "text/html"},
		`{"text":"fallback","blocks":[{"type":"header","text":{"type":"plain_text","text":"Build"}},{"type":"section","text":{"type":"mrkdwn","text":"*ok*"},"fields":[{"type":"mrkdwn","text":"a"}]},{"type":"divider"},{"type":"actions","elements":[{"type":"button","text":{"type":"plain_text","text":"Open"},"url":"https://e.org"}]}]}`: {
			"Build", `<p><strong>ok</strong><br>a<br><hr><br><a href="https://e.org">Open</a></p>`, "text/html",
		},
		`{"attachments":[{"fallback":"f","pretext":"p","title":"T","title_link":"https://e.org","text":"x","fields":[{"title":"n","value":5,"short":true}],"footer":"foot"}]}`: {
			"", `<p>p<br><strong><a href="https://e.org">T</a></strong><br>x<br><strong>n:</strong> 5<br>foot</p>`, "text/html",
		},
		`{"attachments":[{"fallback":"only <this>"}]}`: {"", "<p>only &lt;this&gt;</p>", "text/html"},
		`{"blocks":[{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[{"type":"text","text":"a "},{"type":"text","text":"b","style":{"bold":true}}]},{"type":"rich_text_list","style":"ordered","elements":[{"type":"rich_text_section","elements":[{"type":"link","url":"https://e.org"}]}]}]}]}`: {
			"", `<p>a <strong>b</strong><ol><li><a href="https://e.org">https://e.org</a></li></ol></p>`, "text/html",
		},
		`{"blocks":[{"type":"header","text":{"type":"plain_text","text":"Only"}}]}`: {"", "<strong>Only</strong>", "text/html"},
	} {
		b, err := post(t, Slack(), path, body, "Content-Type: application/json")
		want.check(t, body, b, err)
		b, err = post(t, Slack(), path, "payload="+url.QueryEscape(body), "Content-Type: application/x-www-form-urlencoded")
		want.check(t, "form "+body, b, err)
	}
	if b, err := post(t, Slack(), path, `{"text":"<!channel> down"}`); err != nil || *b.Drafts[0].Priority != 1 {
		t.Errorf("a mention of the channel: %+v, %v", b, err)
	}
	if w := replied(Slack(), Batch{Drafts: []Draft{{}}}); w.Code != 200 || w.Body.String() != "ok" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestSlackRefuses(t *testing.T) {
	const path = "/hook/slack/" + token
	for body, want := range map[string]string{"{}": "no_text", "{": "invalid_payload", "[]": "invalid_payload", `{"text":" "}`: "no_text"} {
		_, err := post(t, Slack(), path, body)
		if w := failed(Slack(), err); w.Code != 400 || w.Body.String() != want {
			t.Errorf("%s: %d %s, want %s", body, w.Code, w.Body, want)
		}
	}
	for _, tt := range []struct {
		err    error
		status int
		word   string
	}{{errToken, 403, "invalid_token"}, {errFast, 429, "rate_limited"}, {&refusal.Error{Kind: refusal.KindUnavailable}, 503, "unavailable"}} {
		if w := failed(Slack(), tt.err); w.Code != tt.status || w.Body.String() != tt.word {
			t.Errorf("%v: %d %s", tt.err, w.Code, w.Body)
		}
	}
}

// Mattermost's text is Markdown and stays it where nothing else is in the message.
func TestMattermost(t *testing.T) {
	for _, path := range []string{"/hooks/" + token, "/hooks/x/" + token} {
		b, err := post(t, Mattermost(), path, `{"text":"**a** #b"}`)
		shown{"", "**a** #b", ""}.check(t, path, b, err)
	}
	b, err := post(t, Mattermost(), "/hooks/"+token, `{"text":"**a**","attachments":[{"text":"_b_"}]}`)
	shown{"", "<p><strong>a</strong></p><p><em>b</em></p>", "text/html"}.check(t, "attachment", b, err)
}
