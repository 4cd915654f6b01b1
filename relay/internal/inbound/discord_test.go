package inbound

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestDiscord(t *testing.T) {
	const path = "/api/v10/webhooks/1/" + token
	b, err := post(t, Discord(), path, `{"content":"**a**","flags":4096}`)
	shown{"", "**a**", ""}.check(t, "content", b, err)
	if p := b.Drafts[0].Priority; p == nil || *p != -1 {
		t.Errorf("a silent message has the priority %v", p)
	}
	if w := replied(Discord(), b); w.Code != http.StatusNoContent || w.Body.Len() > 0 {
		t.Errorf("without wait: %d %s", w.Code, w.Body)
	}
	b, err = post(t, Discord(), path+"?wait=true", `{"content":"c","embeds":[{"title":"T","url":"https://e.org","description":"_d_","fields":[{"name":"n","value":"v"}],"footer":{"text":"f"}}]}`)
	shown{"", `<p>c</p><p><strong><a href="https://e.org">T</a></strong><br><em>d</em><br><strong>n:</strong> v<br>f</p>`, "text/html"}.check(t, "embed", b, err)
	var m struct{ ID string }
	if w := replied(Discord(), b); w.Code != http.StatusOK || json.Unmarshal(w.Body.Bytes(), &m) != nil || m.ID != "42" {
		t.Errorf("with wait: %d %s", w.Code, w.Body)
	}
	for query, status := range map[string]int{"wait=True": 200, "wait=TRUE": 200, "wait=1": 200, "wait=yes": 200, "wait=on": 200, "wait=False": 204, "wait=0": 204, "wait=": 204} {
		b, err := post(t, Discord(), path+"?"+query, `{"content":"c"}`)
		if w := replied(Discord(), b); err != nil || w.Code != status {
			t.Errorf("%s: %d, %v, want %d", query, w.Code, err, status)
		}
	}
	b, err = post(t, Discord(), path+"?thread_id=5", `{"content":"c"}`)
	if err != nil || b.Drafts[0].Thread != "discord:5" {
		t.Errorf("thread: %+v, %v", b.Drafts, err)
	}
	const form = "--x\r\nContent-Disposition: form-data; name=\"payload_json\"\r\n\r\n{\"content\":\"c\"}\r\n--x\r\nContent-Disposition: form-data; name=\"files[0]\"; filename=\"f\"\r\n\r\nfile\r\n--x--\r\n"
	b, err = post(t, Discord(), "/api/webhooks/1/"+token, form, "Content-Type: multipart/form-data; boundary=x")
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
	b, err := post(t, p, "/api/webhooks/1/"+token+"/messages/42", `{"content":"new"}`)
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
		_, err := post(t, Discord(), "/api/webhooks/1/"+token, body)
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
