package protocol

import (
	"net/url"
	"strings"
	"testing"

	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
)

func TestSlack(t *testing.T) {
	const path = "/services/T1/B1/" + token
	for body, want := range map[string]shown{
		`{"text":"*Deployed* <https://e.org|v2> &amp; more"}`: {"", `<p><strong>Deployed</strong> <a href="https://e.org">v2</a> &amp; more</p>`, "text/html"},
		`{"text":"fallback","blocks":[{"type":"header","text":{"type":"plain_text","text":"Build"}},{"type":"section","text":{"type":"mrkdwn","text":"*ok*"},"fields":[{"type":"mrkdwn","text":"a"}]},{"type":"divider"},{"type":"actions","elements":[{"type":"button","text":{"type":"plain_text","text":"Open"},"url":"https://e.org"}]}]}`: {
			"Build", `<p><strong>ok</strong><br>a<br><hr><br><a href="https://e.org">Open</a></p>`, "text/html",
		},
		`{"attachments":[{"fallback":"f","pretext":"p","title":"T","title_link":"https://e.org","text":"x","fields":[{"title":"n","value":5,"short":true},{"title":"alone"}],"footer":"foot"}]}`: {
			"", `<p>p<br><strong><a href="https://e.org">T</a></strong><br>x<br><strong>n:</strong> 5<br><strong>alone</strong><br>foot</p>`, "text/html",
		},
		`{"attachments":[{"fallback":"only <this>"}]}`: {"", "<p>only &lt;this&gt;</p>", "text/html"},
		`{"blocks":[{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[{"type":"text","text":"a "},{"type":"text","text":"b","style":{"bold":true}}]},{"type":"rich_text_list","style":"ordered","elements":[{"type":"rich_text_section","elements":[{"type":"link","url":"https://e.org"}]}]}]}]}`: {
			"", `<p>a <strong>b</strong><ol><li><a href="https://e.org">https://e.org</a></li></ol></p>`, "text/html",
		},
		`{"blocks":[{"type":"header","text":{"type":"plain_text","text":"Only"}}]}`: {"", "<strong>Only</strong>", "text/html"},
	} {
		b, err := submit(t, Slack(), path, body, "Content-Type: application/json")
		want.check(t, body, b, err)
		b, err = submit(t, Slack(), path, "payload="+url.QueryEscape(body), "Content-Type: application/x-www-form-urlencoded")
		want.check(t, "form "+body, b, err)
	}
	for _, body := range []string{
		`{"text":"<!channel> down"}`, `{"text":"<!here|here> down"}`, `{"attachments":[{"pretext":"<!everyone> down"}]}`, `{"attachments":[{"fields":[{"title":"To","value":"<!here>"}]}]}`,
		`{"text":"<!channel> down","blocks":[{"type":"divider"},{"type":"section","text":{"type":"mrkdwn","text":"down"}}]}`, `{"blocks":[{"type":"section","text":{"type":"mrkdwn","text":"<!channel> down"}}]}`,
		`{"blocks":[{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[{"type":"broadcast","range":"here"}]}]}]}`,
	} {
		if b, err := submit(t, Slack(), path, body); err != nil || b.Drafts[0].Priority == nil || *b.Drafts[0].Priority != 1 {
			t.Errorf("%s: %+v, %v", body, b, err)
		}
	}
	if w := replied(Slack(), Parsed{Drafts: []post.Draft{{}}}); w.Code != 200 || w.Body.String() != "ok" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestSlackRefuses(t *testing.T) {
	const path = "/hook/slack/" + token
	for body, want := range map[string]string{"{}": "no_text", "{": "invalid_payload", "[]": "invalid_payload", `{"text":" "}`: "no_text"} {
		_, err := submit(t, Slack(), path, body)
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
		b, err := submit(t, Mattermost(), path, `{"text":"**a** #b"}`)
		shown{"", "**a** #b", ""}.check(t, path, b, err)
	}
	b, err := submit(t, Mattermost(), "/hooks/"+token, `{"text":"**a**","attachments":[{"text":"_b_"}]}`)
	shown{"", "<p><strong>a</strong></p><p><em>b</em></p>", "text/html"}.check(t, "attachment", b, err)
}

// Blocks of newer kinds are shown, and what isn't known yet shows its texts.
func TestSlack_NewerBlocks(t *testing.T) {
	const rich = `{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[{"type":"text","text":"x "},{"type":"channel","channel_id":"C1"},{"type":"text","text":" "},{"type":"usergroup","usergroup_id":"S1"},{"type":"text","text":" "},{"type":"color","value":"#F405B3"},{"type":"text","text":" "},{"type":"date","timestamp":1720710212,"format":"{date}","fallback":"11 July"},{"type":"date","timestamp":0,"format":"{date}"}]}]}`
	for body, want := range map[string]shown{
		`{"type":"markdown","text":"**bold** and [a link](https://e.org)"}`: {"", `<p><strong>bold</strong> and <a href="https://e.org">a link</a></p>`, "text/html"},
		rich: {"", `<p>x #C1 @S1 <code>#F405B3</code> 11 July1970-01-01 00:00 UTC</p>`, "text/html"},
		`{"type":"table","rows":[[{"type":"raw_text","text":"Host"},{"type":"raw_text","text":"Load"}],[{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[{"type":"text","text":"web","style":{"bold":true}}]}]},{"type":"raw_number","value":1.5}]]}`: {
			"", `<p><table><tr><th>Host</th><th>Load</th></tr><tr><td><strong>web</strong></td><td>1.5</td></tr></table></p>`, "text/html",
		},
		`{"type":"card","title":{"type":"mrkdwn","text":"Disk"},"subtitle":{"type":"plain_text","text":"web"},"body":{"type":"mrkdwn","text":"*full*"},"hero_image":{"type":"image","image_url":"https://e.org/p.png","alt_text":"graph"},"actions":[{"type":"button","text":{"type":"plain_text","text":"Open"},"url":"https://e.org"}]}`: {
			"", `<p><strong>Disk</strong><br>web<br><strong>full</strong><br><a href="https://e.org/p.png">graph</a><br><a href="https://e.org">Open</a></p>`, "text/html",
		},
		`{"type":"container","title":{"type":"plain_text","text":"Box"},"child_blocks":[{"type":"section","text":{"type":"mrkdwn","text":"_in_"}},{"type":"markdown","text":"**it**"}]}`: {"", `<p><strong>Box</strong><br><em>in</em><br><strong>it</strong></p>`, "text/html"},
		`{"type":"carousel","elements":[{"type":"card","title":{"type":"plain_text","text":"One"}},{"type":"card","body":{"type":"plain_text","text":"two"}}]}`:                          {"", `<p><strong>One</strong><br>two</p>`, "text/html"},
		`{"type":"video","title":{"type":"plain_text","text":"Film"},"video_url":"https://e.org/v","alt_text":"a","thumbnail_url":"https://e.org/t","description":{"type":"plain_text","text":"long"},"author_name":"Ann"}`: {
			"", `<p><strong><a href="https://e.org/v">Film</a></strong><br>long<br>Ann</p>`, "text/html",
		},
		`{"type":"plan","title":"Deploy","tasks":[{"type":"task_card","title":"Build","status":"complete","sources":[{"type":"url","url":"https://e.org/b","text":"log"}]}]}`: {"", `<p><strong>Deploy</strong><br><strong>Build</strong><br><a href="https://e.org/b">log</a></p>`, "text/html"},
		`{"type":"alert","text":{"type":"mrkdwn","text":"*now*"},"level":"error"}`:                                                                                            {"", `<p><strong>now</strong></p>`, "text/html"},
	} {
		b, err := submit(t, Slack(), "/hook/slack/"+token, `{"text":"fallback","blocks":[`+body+`]}`)
		want.check(t, body, b, err)
	}
	_, err := submit(t, Slack(), "/hook/slack/"+token, `{"blocks":[`+strings.Repeat(`{"type":"container","child_blocks":[`, 100)+strings.Repeat(`]}`, 100)+`]}`)
	if refusal.KindOf(err) != refusal.KindInvalid {
		t.Errorf("nested deeply: %v", err)
	}
}

// The field payload may be in a form of any kind, and not the first.
func TestSlack_Payload(t *testing.T) {
	const json = `{"text":"a & b"}`
	for contentType, body := range map[string]string{
		"application/x-www-form-urlencoded":                "username=bot&payload=" + url.QueryEscape(json),
		"application/x-www-form-urlencoded; charset=utf-8": "payload=" + url.QueryEscape(json) + "&channel=x",
		"text/plain":                      "payload=" + json,
		"application/json":                `{"payload":` + json + `}`,
		"application/json; charset=utf-8": `{"payload":"{\"text\":\"a & b\"}"}`,
		"multipart/form-data; boundary=x": "--x\r\nContent-Disposition: form-data; name=\"payload\"\r\n\r\n" + json + "\r\n--x--\r\n",
	} {
		b, err := submit(t, Slack(), "/hook/slack/"+token, body, "Content-Type: "+contentType)
		shown{"", "<p>a &amp; b</p>", "text/html"}.check(t, contentType, b, err)
	}
}
