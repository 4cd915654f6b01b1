package protocol

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slipway/relay/internal/refusal"
)

func TestDiscord(t *testing.T) {
	const path = "/api/v10/webhooks/1/" + token
	b, err := submit(t, Discord(), path, `{"content":"**a**","flags":4096}`)
	shown{"", "**a**", ""}.check(t, "content", b, err)
	if p := b.Drafts[0].Priority; p == nil || *p != -1 {
		t.Errorf("a silent message has the priority %v", p)
	}
	if w := replied(Discord(), b); w.Code != http.StatusNoContent || w.Body.Len() > 0 {
		t.Errorf("without wait: %d %s", w.Code, w.Body)
	}
	b, err = submit(t, Discord(), path+"?wait=true", `{"content":"c","embeds":[{"title":"T","url":"https://e.org","description":"_d_","fields":[{"name":"n","value":"v"}],"footer":{"text":"f"}}]}`)
	shown{"", `<p>c</p><p><strong><a href="https://e.org">T</a></strong><br><em>d</em><br><strong>n:</strong> v<br>f</p>`, "text/html"}.check(t, "embed", b, err)
	var m struct{ ID string }
	if w := replied(Discord(), b); w.Code != http.StatusOK || json.Unmarshal(w.Body.Bytes(), &m) != nil || m.ID != "42" {
		t.Errorf("with wait: %d %s", w.Code, w.Body)
	}
	for query, status := range map[string]int{"wait=True": 200, "wait=TRUE": 200, "wait=1": 200, "wait=yes": 200, "wait=on": 200, "wait=False": 204, "wait=0": 204, "wait=": 204} {
		b, err := submit(t, Discord(), path+"?"+query, `{"content":"c"}`)
		if w := replied(Discord(), b); err != nil || w.Code != status {
			t.Errorf("%s: %d, %v, want %d", query, w.Code, err, status)
		}
	}
	b, err = submit(t, Discord(), path+"?thread_id=5", `{"content":"c"}`)
	if err != nil || b.Drafts[0].Thread != "discord:5" {
		t.Errorf("thread: %+v, %v", b.Drafts, err)
	}
	const mixed = "--x\r\nContent-Disposition: form-data; name=\"payload_json\"\r\n\r\n{\"content\":\"c\",\"embeds\":\"none\"}\r\n--x--\r\n"
	b, err = submit(t, Discord(), path, mixed, "Content-Type: multipart/form-data; boundary=x")
	shown{"", "c", ""}.check(t, "a field of another type", b, err)
	const form = "--x\r\nContent-Disposition: form-data; name=\"payload_json\"\r\n\r\n{\"content\":\"c\"}\r\n--x\r\nContent-Disposition: form-data; name=\"files[0]\"; filename=\"f\"\r\n\r\nfile\r\n--x--\r\n"
	b, err = submit(t, Discord(), "/api/webhooks/1/"+token, form, "Content-Type: multipart/form-data; boundary=x")
	shown{"", "c", ""}.check(t, "form", b, err)
}

// Uptime Kuma asks for the webhook before it posts.
func TestDiscord_Get(t *testing.T) {
	p := Discord()
	b, err := p.Parse(&Request{Request: httptest.NewRequest(http.MethodGet, "/api/webhooks/1/x", nil)}, App{ID: 7, Name: "app"})
	if err != nil || len(b.Drafts) != 0 {
		t.Fatalf("%+v, %v", b, err)
	}
	var hook struct{ ID, Name string }
	if w := replied(p, b); w.Code != http.StatusOK || json.Unmarshal(w.Body.Bytes(), &hook) != nil || hook.ID != "7" || hook.Name != "app" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Clients edit and delete what they have sent by the id of the answer.
func TestDiscord_Message(t *testing.T) {
	p := Discord()
	b, err := submit(t, p, "/api/webhooks/1/"+token+"/messages/42", `{"content":"new"}`)
	shown{"", "new", ""}.check(t, "edit", b, err)
	if b.Drafts[0].Edits != 42 || replied(p, b).Code != http.StatusOK {
		t.Errorf("edit: %+v", b)
	}
	r := httptest.NewRequest(http.MethodDelete, "/x", nil)
	b, err = p.Parse(&Request{Request: r, Path: map[string]string{"message": "42"}}, App{})
	if err != nil || b.Withdraw != 42 || replied(p, b).Code != http.StatusNoContent {
		t.Errorf("delete: %+v, %v", b, err)
	}
	_, err = p.Parse(&Request{Request: r, Path: map[string]string{"message": "99999999999999999999"}}, App{})
	checkDiscord(t, err, http.StatusNotFound, 10008)
}

func TestDiscordRefuses(t *testing.T) {
	for body, want := range map[string]float64{"{}": 50006, "{": 50109, `{"embeds":[{},{},{},{},{},{},{},{},{},{},{}]}`: 50035} {
		_, err := submit(t, Discord(), "/api/webhooks/1/"+token, body)
		checkDiscord(t, err, http.StatusBadRequest, want)
	}
	checkDiscord(t, errToken, http.StatusUnauthorized, 50027)
	if w := checkDiscord(t, errFast, http.StatusTooManyRequests, 0); w["retry_after"] != 3.0 || w["global"] != false {
		t.Errorf("%v", w)
	}
}

func checkDiscord(t *testing.T, err error, status int, code float64) map[string]any {
	t.Helper()
	w := failed(Discord(), err)
	var answer map[string]any
	if json.Unmarshal(w.Body.Bytes(), &answer) != nil || w.Code != status || answer["code"] != code || answer["message"] == "" {
		t.Errorf("%v: %d %s, want %d and %v", err, w.Code, w.Body, status, code)
	}
	return answer
}

// Messages of components have no content. Link buttons below a text are links.
func TestDiscord_Components(t *testing.T) {
	const path = "/api/webhooks/1/" + token
	b, err := submit(t, Discord(), path+"?with_components=true", `{"flags":32768,"components":[{"type":17,"components":[{"type":10,"content":"# Down"},{"type":14},{"type":9,"components":[{"type":10,"content":"**web**"}],"accessory":{"type":11,"media":{"url":"https://e.org/t.png"},"description":"logo"}},{"type":12,"items":[{"media":{"url":"https://e.org/p.png"}},{"media":{"url":"attachment://x"}}]}]},{"type":1,"components":[{"type":2,"style":5,"label":"Open","url":"https://e.org"},{"type":2,"style":1,"label":"No","custom_id":"x"}]}]}`)
	shown{"", `<p><h1>Down</h1><br><hr><br><strong>web</strong><br><a href="https://e.org/t.png">logo</a><br><a href="https://e.org/p.png">Image</a><br><a href="https://e.org">Open</a></p>`, "text/html"}.check(t, "components", b, err)
	b, err = submit(t, Discord(), path, `{"content":"**c**","components":[{"type":1,"components":[{"type":2,"style":5,"label":"Open","url":"https://e.org"}]}]}`)
	shown{"", `<p><strong>c</strong></p><p><a href="https://e.org">Open</a></p>`, "text/html"}.check(t, "button", b, err)
	for _, body := range []string{`{"flags":32768,"components":[]}`, `{"components":[{"type":1,"components":[{"type":2,"label":"x"}]}]}`, `{"content":"x","components":[` + strings.Repeat(`{"type":14},`, maxComponents) + `{"type":14}]}`} {
		if _, err := submit(t, Discord(), path, body); refusal.KindOf(err) != refusal.KindInvalid {
			t.Errorf("%.60s: %v", body, err)
		}
	}
}

// Discord's Markdown has times and emoji, and its lists end at the next line without a mark.
func TestDiscord_Text(t *testing.T) {
	for in, want := range map[string]string{
		"Labels:\n - severity = critical\nAnnotations:\n - summary = x\nSource: y": "Labels:\n - severity = critical\n\nAnnotations:\n - summary = x\n\nSource: y",
		"1. a\n2. b\nc":             "1. a\n2. b\n\nc",
		"- a\n  more of a\nb":       "- a\n  more of a\n\nb",
		"- a\n\nb":                  "- a\n\nb",
		"```\n- a\nb\n```\nc":       "```\n- a\nb\n```\nc",
		"<t:1795898400:F>":          "Saturday, 28 November 2026 20:40 UTC",
		"<t:1795898400:t>":          "20:40 UTC",
		"<t:1795898400> <t:x>":      "28 November 2026 20:40 UTC <t:x>",
		"<:up:123456789> <a:go:12>": ":up: :go:",
	} {
		if got := discordText(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	b, err := submit(t, Discord(), "/api/webhooks/1/"+token, `{"embeds":[{"title":"down","fields":[{"name":"Went Offline","value":"<t:1795898400:R>"}],"thumbnail":{"url":"https://e.org/t.png"},"footer":{"text":"f"},"timestamp":"2026-11-28T18:00:00.000Z"}]}`)
	shown{"", `<p><strong>down</strong><br><strong>Went Offline:</strong> 2026-11-28 20:40 UTC<br><a href="https://e.org/t.png">Image</a><br>f · 2026-11-28 18:00 UTC</p>`, "text/html"}.check(t, "embed", b, err)
}
