package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/protocol/webhook"
	"slipway/relay/internal/service"
	"slipway/shared/shares"
)

const (
	isJSON = "Content-Type: application/json"
	isForm = "Content-Type: application/x-www-form-urlencoded"
)

// TestTokenPlaces: the token is taken from wherever clients put it.
func TestTokenPlaces(t *testing.T) {
	w := newWorld(t, nil)
	token, other := w.app(named("a")).Token, w.app(named("b")).Token
	multipart := "--x\r\nContent-Disposition: form-data; name=\"message\"\r\n\r\nm\r\n--x\r\nContent-Disposition: form-data; name=\"token\"\r\n\r\n" + token + "\r\n--x--\r\n"
	tests := []struct {
		name, query, body string
		headers           []string
		status            int
	}{
		{"body", "", `{"token":"` + token + `","message":"m"}`, []string{isJSON}, 200},
		{"body without type", "", `{"token":"` + token + `","message":"m"}`, nil, 200},
		{"body that curl calls a form", "", ` {"token":"` + token + `","message":"m"}`, []string{isForm}, 200},
		{"body as text", "", `{"token":"` + token + `","message":"m"}`, []string{"Content-Type: text/plain"}, 200},
		{"body of a kind of JSON", "", `{"token":"` + token + `","message":"m"}`, []string{"Content-Type: application/x+json; charset=utf-8"}, 200},
		{"body with a mark", "", "\xef\xbb\xbf" + `{"token":"` + token + `","message":"m"}`, []string{isJSON}, 200},
		{"form", "", "message=m&token=" + token, []string{isForm}, 200},
		{"form without type", "", "message=m&token=" + token, nil, 200},
		{"multipart", "", multipart, []string{"Content-Type: multipart/form-data; boundary=x"}, 200},
		{"bearer", "", `{"message":"m"}`, []string{isJSON, "Authorization: bearer  " + token}, 200},
		{"gotify", "", `{"message":"m"}`, []string{isJSON, "X-Gotify-Key: " + token}, 200},
		{"basic", "", `{"message":"m"}`, []string{isJSON, basicHeader("", token)}, 200},
		{"basic with a name", "", `{"message":"m"}`, []string{isJSON, basicHeader("anything", token)}, 200},
		{"query", "?token=" + token, `{"message":"m"}`, []string{isJSON}, 200},
		{"everything in the query", "?token=" + token + "&message=m&title=t&priority=5", "", nil, 200},
		{"the same twice, as Proxmox does", "", `{"message":"m"}`, []string{isJSON, "Authorization: Bearer " + token, "X-Gotify-Key: " + token}, 200},
		{"two in headers", "", `{"message":"m"}`, []string{isJSON, "Authorization: Bearer " + token, "X-Gotify-Key: " + other}, 401},
		{"two in body and header", "", `{"token":"` + token + `","message":"m"}`, []string{isJSON, "X-Gotify-Key: " + other}, 401},
		{"two in the query", "?token=" + token + "&token=" + other, `{"message":"m"}`, []string{isJSON}, 401},
		{"two in the form", "", "message=m&token=" + token + "&token=" + other, []string{isForm}, 401},
		{"none", "", `{"message":"m"}`, []string{isJSON}, 401},
		{"null", "", `{"message":"m","token":null}`, []string{isJSON}, 401},
		{"empty", "", `{"message":"m","token":""}`, []string{isJSON}, 401},
		{"unknown", "", `{"message":"m","token":"Axxxxxxxxxxxxxx"}`, []string{isJSON}, 401},
		{"other spelling", "", `{"message":"m","Token":"` + token + `"}`, []string{isJSON}, 200},
		{"space around it", "", `{"message":"m","token":" ` + token + ` "}`, []string{isJSON}, 401},
		{"part of it", "", `{"message":"m","token":"` + token[:10] + `"}`, []string{isJSON}, 401},
		{"not a text", "", `{"message":"m","token":5}`, []string{isJSON}, 400},
	}
	for _, tt := range tests {
		r := w.ask("POST", "/message"+tt.query, tt.body, tt.headers...)
		w.want(tt.name, r, tt.status, "success", tt.status == 200)
		if tt.status == 401 && r.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: no WWW-Authenticate", tt.name)
		}
	}
}

func TestLenientToken(t *testing.T) {
	w := newWorld(t, func(o *service.Options) { o.Accounts.CheckToken = false })
	token := w.app(named("a")).Token
	w.want("space", w.ask("POST", "/message", `{"message":"m","token":" `+token+` "}`), 200)
	for grace, status := range map[string]int{`{}`: 200, `{"grace":"0"}`: 401} { // an explicit end wins
		app := w.app(named("grace of " + grace))
		w.want("replace", w.manage("POST", fmt.Sprintf("/application/%d/token", app.Application.ID), grace), 200)
		w.want("replaced with "+grace, w.ask("POST", "/message", `{"message":"m","token":"`+app.Token+`"}`), status)
	}
	w.want("unknown", w.ask("POST", "/message", `{"message":"m","token":"A123"}`), 401)
}

func TestRefusedMessages(t *testing.T) {
	w := newWorld(t, func(o *service.Options) { o.Limits.MaxMessage, o.Limits.MaxTitle = 40<<10, 100 })
	token := w.app(named("a")).Token
	with := func(fields string) string { return `{"token":"` + token + `",` + fields + `}` }
	deep := strings.Repeat("[", 10_001)
	tests := []struct {
		name, body string
		status     int
		field      any
	}{
		{"no message", with(`"title":"t"`), 400, "message"},
		{"empty message", with(`"message":""`), 400, "message"},
		{"blank message", with(`"message":" \n "`), 400, "message"},
		{"null message", with(`"message":null`), 400, "message"},
		{"priority 3", with(`"message":"m","priority":3`), 400, "priority"},
		{"priority -3", with(`"message":"m","priority":-3`), 400, "priority"},
		{"priority text", with(`"message":"m","priority":"urgent"`), 400, "priority"},
		{"priority half", with(`"message":"m","priority":0.5`), 400, "priority"},
		{"priority huge", with(`"message":"m","priority":1e300`), 400, "priority"},
		{"priority true", with(`"message":"m","priority":true`), 400, "priority"},
		{"extras no object", with(`"message":"m","extras":[1]`), 400, "extras"},
		{"array", `[` + with(`"message":"m"`) + `]`, 400, nil},
		{"cut off", `{"token":"` + token + `","message":"m`, 400, nil},
		{"two values", with(`"message":"m"`) + `{}`, 400, nil},
		{"deep", with(`"message":"m","extras":` + deep), 413, nil},
		{"nothing", ``, 400, nil},
		{"long title", with(`"message":"m","title":"` + strings.Repeat("t", 101) + `"`), 413, "title"},
		{"long message", with(`"message":"` + strings.Repeat("m", 41<<10) + `"`), 413, "message"},
		{"long body", with(`"message":"` + strings.Repeat("m", 70<<10) + `"`), 413, nil},
	}
	for _, tt := range tests {
		r := w.ask("POST", "/message", tt.body, isJSON)
		w.want(tt.name, r, tt.status, "success", false, "errorCode", float64(tt.status), "field", tt.field)
		if s, _ := r.fields["errorDescription"].(string); s == "" {
			t.Errorf("%s: no sentence: %s", tt.name, r.body)
		}
	}
	w.want("neither JSON nor form", w.ask("POST", "/message?token="+token, "<xml/>", "Content-Type: text/xml"), 415, "code", "unsupported_media_type")
	w.want("broken form", w.ask("POST", "/message?token="+token, "message=%zz", isForm), 400)
	w.want("broken multipart", w.ask("POST", "/message?token="+token, "--x\r\n", "Content-Type: multipart/form-data; boundary=x"), 400)
	if sent := len(w.hs.Sent()); sent != 0 {
		t.Errorf("%d messages went out", sent)
	}
}

// TestPriorityScales: clients of Gotify mean something else by 1 than this
// relay's own.
func TestPriorityScales(t *testing.T) {
	w := newWorld(t, nil)
	scale := func(s post.Scale) string {
		in := named(string(s))
		in.PriorityScale = &s
		two := 2
		in.DefaultPriority = &two
		return w.app(in).Token
	}
	tokens := map[post.Scale]string{post.ScaleAuto: scale(post.ScaleAuto), post.ScaleNative: scale(post.ScaleNative), post.ScaleGotify: scale(post.ScaleGotify)}
	tests := []struct {
		scale  post.Scale
		inBody bool
		sent   string
		want   any // nil: refused
	}{
		{post.ScaleAuto, true, "1", 1.0},
		{post.ScaleAuto, true, "-2", -2.0},
		{post.ScaleAuto, true, "1.0", 1.0},
		{post.ScaleAuto, true, "5", nil},
		{post.ScaleAuto, true, "null", 2.0},
		{post.ScaleAuto, false, "1", -1.0},
		{post.ScaleAuto, false, "-5", -1.0},
		{post.ScaleAuto, false, "3", -1.0},
		{post.ScaleAuto, false, "5", 0.0},
		{post.ScaleAuto, false, "7", 0.0},
		{post.ScaleAuto, false, "9", 1.0},
		{post.ScaleAuto, false, "99", 2.0},
		{post.ScaleAuto, false, "8", 1.0},
		{post.ScaleAuto, false, "10", 2.0},
		{post.ScaleAuto, false, "0", 0.0},
		{post.ScaleNative, false, "1", 1.0},
		{post.ScaleNative, false, "5", nil},
		{post.ScaleGotify, true, "1", -1.0},
		{post.ScaleGotify, true, "10", 2.0},
	}
	for _, tt := range tests {
		body, headers := `{"message":"m","priority":`+tt.sent+`}`, []string{isJSON, "X-Gotify-Key: " + tokens[tt.scale]}
		if tt.inBody {
			body, headers = `{"token":"`+tokens[tt.scale]+`","message":"m","priority":`+tt.sent+`}`, headers[:1]
		}
		what := fmt.Sprintf("%s, token in body %v, %s", tt.scale, tt.inBody, tt.sent)
		if r := w.ask("POST", "/message", body, headers...); tt.want == nil {
			w.want(what, r, 400, "field", "priority")
		} else {
			w.want(what, r, 200, "priority", tt.want)
		}
	}
}

// TestGotifyClients: what real clients send is taken as they mean it.
func TestGotifyClients(t *testing.T) {
	w := newWorld(t, nil)
	token := w.app(named("a")).Token
	cli := `{"id":0,"appid":0,"message":"*m*","title":"t","priority":5,"extras":{"client::display":{"contentType":"text/plain"},"other":[1,{"x":null}]},"date":"0001-01-01T00:00:00Z"}`
	r := w.ask("POST", "/message", cli, isJSON, "X-Gotify-Key: "+token)
	w.want("gotify cli", r, 200, "title", "t", "message", "*m*", "priority", 0.0, "status", "queued", "event_id", nil)
	if _, ok := r.fields["id"].(float64); !ok {
		t.Errorf("the id is no number: %s", r.body)
	}
	if extras, _ := r.fields["extras"].(map[string]any); extras["other"] == nil {
		t.Errorf("the extras do not come back: %s", r.body)
	}
	unraid := "--x\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nt\r\n--x\r\nContent-Disposition: form-data; name=\"message\"\r\n\r\nm\r\n--x\r\nContent-Disposition: form-data; name=\"priority\"\r\n\r\n10\r\n--x--\r\n"
	w.want("unraid", w.ask("POST", "/message?token="+token, unraid, "Content-Type: multipart/form-data; boundary=x"), 200, "priority", 2.0)
	w.want("form with plus", w.ask("POST", "/message?token="+token, "message=a+b%26&title=&priority=", isForm), 200, "message", "a b&", "title", "")
	got, err := w.service.Message(t.Context(), w.admin, 1)
	if err != nil || got.ContentType != "text/plain" {
		t.Errorf("the content type is %q, %v", got.ContentType, err)
	}
}

func TestTextSurvives(t *testing.T) {
	w := newWorld(t, nil)
	token := w.app(named("a")).Token
	text := "ä \u2028 \"quoted\" \\ \t </script> 😀 \u001f ü"
	r := w.ask("POST", "/message", "message="+url.QueryEscape(text)+"&token="+token, isForm)
	w.want("text", r, 200, "message", text)
	w.want("escapes", w.ask("POST", "/message", `{"token":"`+token+`","message":"\u00e4\ud83d\ude00\n"}`), 200, "message", "ä😀\n")
	w.want("bad bytes", w.ask("POST", "/message", "{\"token\":\""+token+"\",\"message\":\"a\xffb\"}"), 200, "message", "a\ufffdb")
}

func TestWait(t *testing.T) {
	w := newWorld(t, nil)
	token := w.app(named("a")).Token
	body := `{"token":"` + token + `","message":"m"}`
	r := w.ask("POST", "/message?wait=5s", body)
	w.want("sent", r, 200, "status", "sent", "success", true)
	if r.fields["event_id"] == nil {
		t.Errorf("no event id: %s", r.body)
	}
	w.want("sent, by Prefer", w.ask("POST", "/message", body, "Prefer: respond-async, wait=5"), 200, "status", "sent")
	release := w.hs.Hold()
	began := time.Now()
	w.want("still on its way", w.ask("POST", "/message?wait=50ms", body), 200, "status", "queued", "success", true, "event_id", nil)
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("waited %v", took)
	}
	release()
	w.hs.FailIn(room, &matrix.SendError{Class: matrix.ClassDead, Code: "M_BAD_JSON", Reason: "not taken"})
	w.want("given up", w.ask("POST", "/message?wait=5s", body), 200, "status", "dead", "success", false, "last_error", "not taken")
	w.want("nonsense", w.ask("POST", "/message?wait=soon", body), 400, "field", "wait")
	w.want("negative", w.ask("POST", "/message?wait=-5s", body), 400, "field", "wait")
}

// The header counts at the addresses of other services, too.
func TestIdempotency_EachProtocol(t *testing.T) {
	w := newWorldFor(t, nil, protocol.Slack(), protocol.Mattermost(), protocol.Discord(), protocol.Teams(), protocol.Pushover(), webhook.Generic(), webhook.Hookshot(), webhook.Apprise(), protocol.Ntfy())
	token := w.app(named("senders")).Token
	for path, body := range map[string]string{
		"/message":                        `{"message":"TEXT"}`,
		"/TOKEN":                          "TEXT",
		"/1/messages.json":                `{"user":"u","message":"TEXT"}`,
		"/hook/slack/TOKEN":               `{"text":"TEXT"}`,
		"/hooks/TOKEN":                    `{"text":"TEXT"}`,
		"/api/webhooks/1/TOKEN?wait=true": `{"content":"TEXT"}`,
		"/hook/teams/TOKEN":               `{"text":"TEXT"}`,
		"/hook/generic/TOKEN":             `{"message":"TEXT"}`,
		"/webhook/TOKEN":                  `{"text":"TEXT"}`,
		"/notify/TOKEN":                   `{"body":"TEXT"}`,
	} {
		post := func(text string) reply {
			return w.ask("POST", strings.ReplaceAll(path, "TOKEN", token), strings.ReplaceAll(body, "TEXT", text), "X-Gotify-Key: "+token, "Idempotency-Key: "+path)
		}
		first := post("one")
		if again := post("one"); first.status >= 300 || again.status != first.status {
			t.Errorf("%s: %d %s, then %d %s", path, first.status, first.body, again.status, again.body)
		}
		if other := post("two"); other.status != 409 {
			t.Errorf("%s: another message under the key: %d %s", path, other.status, other.body)
		}
	}
	if r := w.ask("GET", "/message?limit=50", "", "Authorization: Bearer "+token); strings.Count(r.body, `"status_url"`) != 10 {
		t.Errorf("not 10 messages: %s", r.body)
	}
}

func TestIdempotency(t *testing.T) {
	w := newWorld(t, nil)
	token := w.app(named("a")).Token
	send := func(text, key string) reply {
		return w.ask("POST", "/message?wait=5s", `{"token":"`+token+`","message":"`+text+`"}`, "Idempotency-Key: "+key)
	}
	first := send("m", "k1")
	w.want("first", first, 200)
	again := send("m", "k1")
	w.want("again", again, 200, "id", first.fields["id"], "date", first.fields["date"], "event_id", first.fields["event_id"])
	if again.header.Get("Idempotent-Replay") != "true" || first.header.Get("Idempotent-Replay") != "" {
		t.Error("Idempotent-Replay is not on the second answer alone")
	}
	w.want("another message", send("other", "k1"), 409, "code", "conflict")
	w.want("another key", send("m", "k2"), 200, "id", first.fields["id"].(float64)+1)
	w.want("too long a key", send("m", strings.Repeat("k", 300)), 400)
	if n := len(w.hs.Sent()); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
	alarm := `{"token":"` + token + `","key":"disk","message":"full"}`
	w.want("a report", w.ask("POST", "/message", alarm), 200)
	if r := w.ask("POST", "/message", alarm); r.status != 200 || r.header.Get("Idempotent-Replay") != "" {
		t.Errorf("a report without an idempotency key: %d, Idempotent-Replay %q", r.status, r.header.Get("Idempotent-Replay"))
	}
	w.hs.FailIn(room, &matrix.SendError{Class: matrix.ClassDead, Code: "M_BAD_JSON", Reason: "not taken"})
	w.want("given up", send("m", "k3"), 200, "success", false)
	w.want("given up, again without waiting", w.ask("POST", "/message", `{"token":"`+token+`","message":"m"}`, "Idempotency-Key: k3"), 200, "success", false, "last_error", "not taken")
}

func TestRateLimit(t *testing.T) {
	w := newWorld(t, nil)
	in, limit := named("a"), 2
	in.RateLimit = &limit
	token := w.app(in).Token
	body := `{"token":"` + token + `","message":"m"}`
	for range 2 {
		w.want("within", w.ask("POST", "/message", body), 200)
	}
	r := w.ask("POST", "/message", body)
	w.want("beyond", r, 429, "code", "rate_limited")
	if r.header.Get("Retry-After") == "" || r.header.Get("Retry-After") == "0" {
		t.Errorf("Retry-After is %q", r.header.Get("Retry-After"))
	}
}

// An address that guesses tokens is refused with 429; valid tokens of the same address aren't.
func TestWrongTokens_Many_AreRefusedWith429(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldWithoutNetwork(t, nil, webhook.Registry(nil))
		token := w.app(named("a")).Token
		guess := func() reply { return w.ask("POST", "/message", `{"token":"Awrong","message":"m"}`, isJSON) }
		for i := range 60 {
			if i%2 == 0 {
				w.want("a guess elsewhere", w.ask("GET", "/message?token=Awrong", ""), 401)
			} else if r := guess(); r.status != 401 {
				t.Fatalf("guess %d: %d", i, r.status)
			}
		}
		if r := guess(); r.status != 429 || r.header.Get("Retry-After") == "" {
			t.Errorf("the next guess: %d, Retry-After %q", r.status, r.header.Get("Retry-After"))
		}
		w.want("a valid token", w.ask("POST", "/message", `{"token":"`+token+`","message":"m"}`, isJSON), 200)
	})
}

// Clients of Gotify put the priority in quotes.
func TestPriorityInQuotes(t *testing.T) {
	w := newWorld(t, nil)
	key := "X-Gotify-Key: " + w.app(named("a")).Token
	w.want("high", w.ask("POST", "/message", `{"message":"m","priority":"8"}`, key, isJSON), 200, "priority", 1.0)
	w.want("none", w.ask("POST", "/message", `{"message":"m","priority":""}`, key, isJSON), 200, "priority", 0.0)
}

// Slow bodies of strangers never keep senders with a token waiting, and one address cannot take all places of
// strangers.
func TestSlowStrangers(t *testing.T) {
	w := newWorld(t, nil)
	token := w.app(named("a")).Token
	w.api.SetLimits(1<<20, 0)
	ctx, stop := context.WithCancel(t.Context())
	var slow sync.WaitGroup
	defer slow.Wait()
	defer stop()
	for i := range 2 * strangerMemory >> 20 {
		rest, end := io.Pipe()
		slow.Go(func() { <-ctx.Done(); end.CloseWithError(ctx.Err()) })
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/message", io.MultiReader(strings.NewReader(strings.Repeat(" ", 2*bigBody)), rest))
		r.RemoteAddr = "192.0.2.1:1234"
		if i%2 == 0 {
			r.Header.Set("X-Gotify-Key", "Awrong")
		}
		slow.Go(func() { w.api.ServeHTTP(httptest.NewRecorder(), r) })
	}
	holds := func(whose string, memory *shares.Pool, want int) {
		t.Helper()
		for end := time.Now().Add(time.Minute); memory.Held() != want; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the memory of %s: %d bytes are held, want %d", whose, memory.Held(), want)
			}
		}
	}
	holds("strangers", w.api.strangers, shareStranger)
	long := `{"token":"` + token + `","message":"` + strings.Repeat("m ", bigBody) + `"}`
	w.want("token in the header", w.ask("POST", "/message", long, "X-Gotify-Key: "+token), 200)
	w.want("token in the body", w.ask("POST", "/message", long), 200)
	// A request gives its memory back after its answer.
	holds("strangers", w.api.strangers, shareStranger)
	holds("senders", w.api.senders, 0)
}
