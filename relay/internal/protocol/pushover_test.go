package protocol

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/post"
)

func TestPushover(t *testing.T) {
	const path, form = "/1/messages.json", "Content-Type: application/x-www-form-urlencoded"
	const credentials = "token=" + token + "&user=u&"
	for body, want := range map[string]shown{
		"message=a+%3Cb%3E&title=t":                   {"t", "a <b>", "text/plain"},
		"message=<b>x</b>&html=1":                     {"", "<b>x</b>", "text/html"},
		"message=a<&monospace=1":                      {"", "<pre><code>a&lt;</code></pre>", "text/html"},
		"message=a&url=https://e.org&url_title=Site":  {"", `<p>a</p><p><a href="https://e.org">Site</a></p>`, "text/html"},
		"message=a&priority=2&retry=30&expire=3600":   {"", "a", "text/plain"},
		"message=a&sound=magic&device=x&timestamp=5&": {"", "a", "text/plain"},
	} {
		b, err := submit(t, Pushover(), path, credentials+body, form)
		want.check(t, body, b, err)
	}
	b, err := submit(t, Pushover(), path, `{"token":"`+token+`","user":"u","message":"j","priority":"1","timestamp":1700000000,"html":false,"monospace":null}`, "Content-Type: application/json")
	shown{"", "j", "text/plain"}.check(t, "JSON", b, err)
	if d := b.Drafts[0]; d.Priority == nil || *d.Priority != 1 || d.EventAt.Unix() != 1_700_000_000 {
		t.Errorf("%+v", d)
	}
	w := replied(Pushover(), b)
	if w.Code != http.StatusOK || w.Header().Get("X-Limit-App-Limit") == "" || w.Header().Get("X-Limit-App-Remaining") == "" || w.Header().Get("X-Limit-App-Reset") == "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	b, err = submit(t, Pushover(), "/1/users/validate.json", credentials, form)
	var valid struct{ Status int }
	if w := replied(Pushover(), b); err != nil || len(b.Drafts) != 0 || json.Unmarshal(w.Body.Bytes(), &valid) != nil || valid.Status != 1 {
		t.Errorf("validate: %v, %s", err, w.Body)
	}
}

func TestPushoverRefuses(t *testing.T) {
	for body, field := range map[string]string{"": "message", "message=a&priority=3": "priority", "message=a&priority=2": "retry", "message=a&priority=2&retry=29&expire=60": "retry", "message=a&priority=2&retry=30&expire=99999": "expire"} {
		_, err := submit(t, Pushover(), "/1/messages.json", "token="+token+"&"+body, "Content-Type: application/x-www-form-urlencoded")
		checkPushover(t, err, field)
	}
	checkPushover(t, errToken, "token")
}

func checkPushover(t *testing.T, err error, field string) {
	t.Helper()
	w := failed(Pushover(), err)
	var answer map[string]any
	if json.Unmarshal(w.Body.Bytes(), &answer) != nil || w.Code != http.StatusBadRequest || answer["status"] != 0.0 || answer[field] != "invalid" || len(answer["errors"].([]any)) != 1 {
		t.Errorf("%v: %d %s, want %s", err, w.Code, w.Body, field)
	}
}

// A message of priority 2 asks for reminders and gets a receipt, by which its sender learns who has acknowledged it.
func TestPushoverReceipts(t *testing.T) {
	b, err := submit(t, Pushover(), "/1/messages.json", "token="+token+"&message=a&priority=2&retry=60&expire=3600", "Content-Type: application/x-www-form-urlencoded")
	if err != nil || b.Drafts[0].Retry != time.Minute || b.Drafts[0].Expire != time.Hour {
		t.Fatalf("%+v, %v", b.Drafts, err)
	}
	w := httptest.NewRecorder()
	Pushover().Reply(w, Result{Parsed: b, Messages: []post.Accepted{{View: post.View{Entry: post.Entry{ID: 42}}}}})
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	receipt, _ := answer["receipt"].(string)
	if len(receipt) != 30 {
		t.Fatalf("%s", w.Body)
	}
	for method, stops := range map[string]bool{http.MethodGet: false, http.MethodPost: true} {
		r := httptest.NewRequest(method, "/1/receipts/"+receipt+".json?token="+token, nil)
		b, err := Pushover().Parse(&Request{Request: r, Path: map[string]string{"receipt": receipt}, Body: []byte{}}, App{})
		if err != nil || b.Receipt == nil || *b.Receipt != (Receipt{42, stops}) {
			t.Errorf("%s: %+v, %v", method, b, err)
		}
	}
	for _, unknown := range []string{"", "42", strings.Repeat("x", 30), "r" + strings.Repeat("9", 29)} {
		if id := messageOf(unknown); id != 0 {
			t.Errorf("%q is %d", unknown, id)
		}
	}
	w = httptest.NewRecorder()
	state := post.Alert{Retry: 60000, ExpiresAt: 3600000, AcknowledgedAt: 5000, AcknowledgedBy: "@a:hs"}
	Pushover().Reply(w, Result{Parsed: Parsed{Receipt: &Receipt{Message: 42}}, Alert: state})
	clear(answer)
	if json.Unmarshal(w.Body.Bytes(), &answer) != nil || answer["acknowledged"] != 1.0 || answer["acknowledged_at"] != 5.0 || answer["acknowledged_by"] != "@a:hs" || answer["expired"] != 0.0 || answer["expires_at"] != 3600.0 {
		t.Errorf("%s", w.Body)
	}
}
