package api

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"slipway/relay/internal/post"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/service"
)

func newNtfyWorld(t *testing.T) (w *world, token string) {
	t.Helper()
	w = newWorldFor(t, nil, protocol.Ntfy())
	return w, w.app(named("Web shop")).Token
}

// eventsOf returns the events of an answer, one a line.
func (w *world) eventsOf(r reply) (all []protocol.NtfyEvent) {
	w.Helper()
	for line := range strings.Lines(r.body) {
		var e protocol.NtfyEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			w.Fatalf("%v in %s", err, line)
		}
		all = append(all, e)
	}
	return all
}

// texts lists the messages of a poll.
func (w *world) texts(path string, headers ...string) string {
	w.Helper()
	r := w.ask("GET", path, "", headers...)
	w.want(path, r, 200)
	var all []string
	for _, e := range w.eventsOf(r) {
		all = append(all, e.Message)
	}
	return strings.Join(all, " ")
}

func TestNtfySequence(t *testing.T) {
	w, token := newNtfyWorld(t)
	first := w.ask("POST", "/"+token+"/backup-1", "10 %")
	w.want("first", first, 200, "id", protocol.NtfyID(1), "sequence_id", "backup-1", "message", "10 %")
	w.want("again", w.ask("PUT", "/ntfy/"+token+"/backup-1", "20 %"), 200, "id", protocol.NtfyID(1), "sequence_id", "backup-1")
	w.want("by JSON", w.ask("POST", "/", `{"topic":"`+token+`","message":"30 %","sequence_id":"backup-1"}`), 200, "id", protocol.NtfyID(1))
	w.want("by a header", w.ask("POST", "/alerts", "40 %", "Authorization: Bearer "+token, "X-Sequence-ID: backup-1"), 200, "id", protocol.NtfyID(1))
	plain := w.ask("POST", "/"+token, "plain")
	id, _ := plain.fields["id"].(string)
	w.want("no sequence but the id", plain, 200, "sequence_id", nil)
	w.want("by its id", w.ask("PUT", "/"+token+"/"+id, "changed"), 200, "id", id, "sequence_id", nil)
	w.want("by its id, again", w.ask("PUT", "/"+token+"/"+id, "changed again"), 200, "id", id)
	w.want("by the id of a message with a sequence", w.ask("PUT", "/"+token+"/"+protocol.NtfyID(1), "50 %"), 200, "id", protocol.NtfyID(1))
	other := w.app(named("other")).Token
	w.want("another's id is a sequence of its own", w.ask("PUT", "/"+other+"/"+id, "mine"), 200, "sequence_id", id)
	if got := w.texts("/" + token + "/json?poll=1"); got != "changed again 50 %" && got != "50 % changed again" { // the order is that of the edits, if it needed some
		t.Errorf("the messages are %q", got)
	}
	w.want("cleared", w.ask("PUT", "/"+token+"/backup-1/clear", ""), 200, "event", "message_clear", "sequence_id", "backup-1", "topic", token)
	w.want("read", w.ask("PUT", "/"+token+"/"+id+"/read", ""), 200, "event", "message_clear")
	w.want("deleted", w.ask("DELETE", "/"+token+"/backup-1", ""), 200, "event", "message_delete", "sequence_id", "backup-1")
	w.want("deleted by its id", w.ask("DELETE", "/"+token+"/"+id, ""), 200, "event", "message_delete")
	w.want("nothing to delete", w.ask("DELETE", "/"+token+"/nothing", ""), 200, "event", "message_delete")
	if got := w.texts("/" + token + "/json?poll=1"); got != "" {
		t.Errorf("what is left is %q", got)
	}
	if got := w.texts("/" + other + "/json?poll=1"); got != "mine" {
		t.Errorf("the other's messages are %q", got)
	}
	w.want("a wrong token", w.ask("DELETE", "/nonsense/backup-1", ""), 401, "code", 40101.)
	w.want("a bad sequence", w.ask("POST", "/"+token+"?sid=a%20b", "x"), 400, "code", 40049.)
}

// What isn't a topic is never published to, whatever the method.
func TestNtfyTakesNoOtherPath(t *testing.T) {
	w, token := newNtfyWorld(t)
	bearer := "Authorization: Bearer " + token
	for _, tt := range []struct {
		method, path string
		status       int
	}{{"POST", "/message/1", 405}, {"POST", "/user/x", 404}, {"PUT", "/stream/x", 404}, {"DELETE", "/health/x", 404}, {"POST", "/ui/login", 404}, {"PUT", "/heartbeat/" + token, 405}} {
		if r := w.ask(tt.method, tt.path, "text", bearer); r.status != tt.status {
			t.Errorf("%s %s: %d %s, want %d", tt.method, tt.path, r.status, r.body, tt.status)
		}
	}
	if allow := w.ask("PATCH", "/heartbeat/"+token, "").header.Get("Allow"); allow != "GET, POST" {
		t.Errorf("Allow is %q", allow)
	}
	if got := w.texts("/x/json?poll=1", bearer); got != "" {
		t.Errorf("%q was published", got)
	}
}

// Errors below a topic, and of ntfy's API, have ntfy's shape: its clients fail on others.
func TestNtfyErrors(t *testing.T) {
	w, token := newNtfyWorld(t)
	for _, tt := range []struct {
		method, path string
		status       int
		code         float64
	}{
		{"GET", "/" + token + "/nothing.html", 404, 40401},
		{"GET", "/" + token + "/a/b/c", 404, 40401},
		{"PATCH", "/" + token + "/json", 404, 40401},
		{"GET", "/" + token + "/backup-1", 404, 40401},
		{"GET", "/v1/nothing", 404, 40401},
		{"GET", "/ntfy/v1/nothing", 404, 40401},
		{"GET", "/wrong/json?poll=1", 401, 40101},
		{"GET", "/wrong/auth", 401, 40101},
		{"GET", "/" + token + "/json?since=nonsense", 400, 40008},
		{"GET", "/" + token + "/json?poll=1&priority=9", 400, 40007},
		{"GET", "/" + token + "/ws", 400, 40016},
		{"GET", "/" + strings.Repeat(token+",", 10) + token + "/json", 400, 40009},
		{"GET", "/" + strings.Repeat("x", 65) + "/auth", 400, 40009},
		{"POST", "/" + strings.Repeat("x", 65), 400, 40009},
		{"DELETE", "/" + token + "/" + strings.Repeat("x", 65), 400, 40049},
		{"PUT", "/ntfy/" + token + "/" + strings.Repeat("x", 65), 400, 40049},
	} {
		r := w.ask(tt.method, tt.path, "")
		w.want(tt.method+" "+tt.path, r, tt.status, "code", tt.code, "http", float64(tt.status))
		for name := range r.fields {
			if !slices.Contains([]string{"code", "http", "error", "link"}, name) {
				t.Errorf("%s: the field %s is unknown to clients", tt.path, name)
			}
		}
	}
	for path, status := range map[string]int{"/nothing/": 405, "/message/nothing": 404} {
		if r := w.ask("GET", path, ""); r.status != status || r.fields["errorCode"] != float64(status) {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}

func TestNtfyAccount(t *testing.T) {
	w, token := newNtfyWorld(t)
	for _, prefix := range []string{"", "/ntfy"} {
		w.want("nobody", w.ask("GET", prefix+"/v1/account", ""), 200, "username", "*", "role", "anonymous")
		w.want("an application", w.ask("GET", prefix+"/v1/account", "", "Authorization: Bearer "+token), 200, "username", "Web shop", "role", "user")
	}
	w.want("its token as a password", w.ask("GET", "/v1/account", "", basicHeader("any", token)), 200, "username", "Web shop")
	w.want("a user", w.ask("GET", "/v1/account", "", admin), 200, "username", "admin")
	w.want("a wrong token", w.ask("GET", "/v1/account", "", "Authorization: Bearer Awrong"), 401, "code", 40101.)
	w.want("a token for the password", w.ask("POST", "/v1/account/token", `{"label":"Home Assistant"}`, basicHeader("any", token)), 200, "token", token)
	w.want("a token for a user", w.ask("POST", "/v1/account/token", `{}`, admin), 403, "code", 40301.)
	w.want("a token for nobody", w.ask("POST", "/v1/account/token", `{}`), 401, "code", 40101.)
	w.want("rights", w.ask("GET", "/"+token+"/auth", ""), 200, "success", true)
	w.want("rights to any topics", w.ask("GET", "/a,b/auth", "", basicHeader("any", token)), 200, "success", true)
	for _, path := range []string{"/", "/ntfy", "/" + token, "/" + token + "/json", "/ntfy/" + token + "/a/clear", "/v1/account"} {
		if r := w.ask("OPTIONS", path, "", "Origin: https://page.example", "Access-Control-Request-Method: PUT"); path != "/v1/account" && (r.status != 200 || r.header.Get("Access-Control-Allow-Origin") != "*") {
			t.Errorf("OPTIONS %s: %d %v", path, r.status, r.header)
		}
	}
}

func TestNtfyPoll(t *testing.T) {
	w, token := newNtfyWorld(t)
	w.want("1", w.ask("POST", "/"+token, "one", "Title: First", "Priority: high", "Tags: warning,db", "Click: https://e.org", `Actions: view, "Open, now", https://e.org/x`), 200)
	w.want("2", w.ask("POST", "/"+token, "**two**", "Markdown: yes"), 200)
	w.want("3", w.ask("POST", "/"+token, "later", "In: 1h"), 200)
	w.send(token, "native")
	all := w.eventsOf(w.ask("GET", "/"+token+"/json?poll=1", ""))
	if len(all) != 3 {
		t.Fatalf("%+v", all)
	}
	e := all[0]
	if e.ID != protocol.NtfyID(1) || e.Event != "message" || e.Topic != token || e.Title != "First" || e.Message != "one" || e.Priority != 4 || !slices.Equal(e.Tags, []string{"warning", "db"}) ||
		e.Click != "https://e.org" || len(e.Actions) != 1 || e.Actions[0].Label != "Open, now" || e.Actions[0].ID == "" || time.Since(time.Unix(e.Time, 0)).Abs() > time.Hour || e.Expires <= e.Time {
		t.Errorf("the first is %+v", e)
	}
	if all[1].ContentType != "text/markdown" || all[1].Message != "**two**" || all[2].Message != "native" || all[1].Priority != 0 {
		t.Errorf("the others are %+v", all[1:])
	}
	for query, want := range map[string]string{
		"poll=1&since=all": "one **two** native", "poll=1&since=" + e.ID: "**two** native", "poll=1&since=latest": "native", "poll=1&since=none": "",
		"poll=1&since=10m": "one **two** native", fmt.Sprint("poll=1&since=", time.Now().Add(time.Hour).Unix()): "", "poll=1&scheduled=1": "one **two** later native",
		"poll=1&priority=4,5": "one", "poll=1&p=default": "**two** native", "poll=1&tags=db": "one", "poll=1&tags=db,none": "", "poll=1&title=First": "one",
		"poll=true&message=native": "native", "poll=1&id=" + e.ID: "one",
	} {
		if got := w.texts("/" + token + "/json?" + query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	if got := w.texts("/any/json", "Authorization: Bearer "+token, "X-Poll: 1", "Since: latest"); got != "native" {
		t.Errorf("by headers: %q", got)
	}
	if r := w.ask("GET", "/ntfy/"+token+"/raw?poll=1", ""); r.body != "one\n**two**\nnative\n" || !strings.HasPrefix(r.header.Get("Content-Type"), "text/plain") {
		t.Errorf("raw: %q", r.body)
	}
	if r := w.ask("GET", "/"+token+"/sse?poll=1&since=latest", ""); !strings.HasPrefix(r.body, `data: {"id":"`) || !strings.HasSuffix(r.body, "}\n\n") {
		t.Errorf("sse: %q", r.body)
	}
	if r := w.ask("HEAD", "/"+token+"/json", ""); r.status != 200 {
		t.Errorf("HEAD: %d", r.status)
	}
}

// Messages that a subscription begins with are sent however much they take, and few of them are in memory at a time.
func TestNtfyPoll_LongMessages(t *testing.T) {
	w, token := newNtfyWorld(t)
	app, err := w.service.Sender(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	const n = 8
	want := ""
	for i := range n {
		text := strings.Repeat(fmt.Sprint(i), 1_000_000)
		if _, err := w.service.AcceptAll(t.Context(), app, post.Draft{Token: token, Content: post.Content{Body: text}}); err != nil {
			t.Fatal(err)
		}
		want += text[:1]
	}
	v, err := w.service.TokenViewer(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	st, release, err := w.api.stream(t.Context(), v, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	got := ""
	s := &subscription{a: w.api, q: ntfyQuery{since: "all"}, readers: []ntfyReader{{v: v}}, streams: []*service.Stream{st}, write: func(e protocol.NtfyEvent) error {
		got += e.Message[:1]
		return nil
	}}
	all, err := s.old(t.Context())
	kept := 0
	for _, f := range all {
		if f.m != nil {
			kept += len(f.m.Body)
		}
	}
	if err != nil || len(all) != n || kept == 0 || kept > maxOldBytes {
		t.Errorf("%d bytes of %d messages are kept, %v", kept, len(all), err)
	}
	if err := s.sendOld(t.Context()); err != nil || got != want {
		t.Errorf("sent %q, want %q, %v", got, want, err)
	}
}

// Each topic without a credential is a token, one with a client's credential is an application's name.
func TestNtfyTopics(t *testing.T) {
	w, token := newNtfyWorld(t)
	other := w.app(named("other")).Token
	w.send(token, "1")
	w.send(other, "2")
	if got := w.texts("/" + token + "," + other + "/json?poll=1"); got != "1 2" {
		t.Errorf("two tokens: %q", got)
	}
	if got := w.texts("/" + token + "," + token + "/json?poll=1"); got != "1" {
		t.Errorf("one twice: %q", got)
	}
	for name, header := range map[string]string{"a client": "Authorization: Bearer " + w.gotify(admin).token, "a user": admin} {
		if got := w.texts("/web-shop/json?poll=1", header); got != "1" {
			t.Errorf("%s: %q", name, got)
		}
		if got := w.texts("/other,Web-Shop/json?poll=1", header); got != "1 2" {
			t.Errorf("%s, two: %q", name, got)
		}
		w.want(name+", no such", w.ask("GET", "/nothing/json?poll=1", "", header), 403, "code", 40301.)
	}
}

func TestNtfySubscribe(t *testing.T) {
	w, token := newNtfyWorld(t)
	resp, err := http.Get(w.base + "/" + token + "/json") //nolint:noctx // it ends with the test
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	next := func() (e protocol.NtfyEvent) {
		t.Helper()
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &e) != nil {
			t.Fatalf("%q, %v", lines.Text(), lines.Err())
		}
		return e
	}
	if e := next(); e.Event != "open" || e.Topic != token || e.ID == "" {
		t.Errorf("it opens with %+v", e)
	}
	conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(w.base, "http")+"/any/ws?priority=5", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}}) //nolint:bodyclose // it has none
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	if _, text, err := conn.Read(t.Context()); err != nil || !strings.Contains(string(text), `"event":"open"`) {
		t.Errorf("the WebSocket opens with %s, %v", text, err)
	}
	w.want("1", w.ask("POST", "/"+token+"/seq", "one"), 200)
	if e := next(); e.Message != "one" || e.Sequence != "seq" {
		t.Errorf("first %+v", e)
	}
	// What waits for the homeserver takes the next content without an edit of its own, and without an event.
	delivered := func(what, path string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !strings.Contains(w.ask("GET", path, "", "X-Gotify-Key: "+token).body, `"status":"sent"`); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s isn't delivered", what)
			}
		}
	}
	delivered("the message", "/message/1")
	w.want("2", w.ask("POST", "/"+token+"/seq", "two", "Priority: 5"), 200)
	if e := next(); e.Message != "two" || e.Sequence != "seq" || e.ID == protocol.NtfyID(1) {
		t.Errorf("the change is %+v", e)
	}
	if _, text, err := conn.Read(t.Context()); err != nil || !strings.Contains(string(text), `"message":"two"`) {
		t.Errorf("the WebSocket has %s, %v", text, err)
	}
	events, err := http.Get(w.base + "/" + token + "/sse") //nolint:noctx // it ends with the test
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()
	sse := bufio.NewScanner(events.Body)
	line := func(want string) {
		t.Helper()
		for sse.Scan() {
			if sse.Text() == want {
				return
			}
		}
		t.Errorf("there is no %q: %v", want, sse.Err())
	}
	line("event: open")
	delivered("the change", "/message/1/history")
	w.want("cleared by its id", w.ask("PUT", "/"+token+"/"+protocol.NtfyID(1)+"/clear", ""), 200)
	line("event: message_clear")
	if e := next(); e.Sequence != "seq" || !strings.HasPrefix(e.Message, "Acknowledged by") {
		t.Errorf("before the clearing comes %+v", e)
	}
	if e := next(); e.Event != protocol.NtfyClear || e.Sequence != "seq" || e.Topic != token || e.ID == "" || e.Time == 0 {
		t.Errorf("the clearing is %+v", e)
	}
	other := w.app(named("other")).Token
	w.want("another's", w.ask("DELETE", "/"+other+"/seq", ""), 200)
	w.want("nothing", w.ask("DELETE", "/"+token+"/nothing", ""), 200)
	if e := next(); e.Event != protocol.NtfyDelete || e.Sequence != "nothing" {
		t.Errorf("the deletion of nothing is %+v", e)
	}
	w.want("deleted", w.ask("DELETE", "/"+token+"/seq", ""), 200)
	line("event: message_delete")
	if e := next(); e.Event != protocol.NtfyDelete || e.Sequence != "seq" {
		t.Errorf("the deletion is %+v", e)
	}
	w.want("urgent", w.ask("POST", "/"+token, "urgent", "Priority: 5"), 200)
	if _, text, err := conn.Read(t.Context()); err != nil || !strings.Contains(string(text), `"message":"urgent"`) {
		t.Errorf("the filter lets %s through, %v", text, err)
	}
	w.api.changes.mu.Lock()
	if n := len(w.api.changes.subscribers); n != 3 {
		t.Errorf("%d subscribers, want 3", n)
	}
	w.api.changes.mu.Unlock()
	_ = conn.Close(websocket.StatusNormalClosure, "")
	events.Body.Close()
	resp.Body.Close()
	w.closes("all", 0)
}

// A subscriber gets a delayed message when it is due, at the time to which it was moved, and not at all once it is withdrawn.
func TestNtfySubscribe_Delayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldWithoutNetwork(t, nil, protocol.Ntfy())
		token := w.app(named("a")).Token
		w.want("before", w.ask("POST", "/"+token+"/a", "a", "In: 1h"), 200)
		out, in := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.base+"/"+token+"/json", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.RequestURI = r.URL.Path
		got := make(chan string, 100)
		go func() {
			lines := bufio.NewScanner(out)
			for lines.Scan() {
				var e protocol.NtfyEvent
				if json.Unmarshal(lines.Bytes(), &e) == nil && e.Event == "message" {
					got <- e.Message
				}
			}
		}()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer in.Close()
			w.api.ServeHTTP(pipeWriter{http.Header{}, in}, r)
		}()
		want := func(what string, all ...string) {
			t.Helper()
			synctest.Wait()
			var list []string
			for len(got) > 0 {
				list = append(list, <-got)
			}
			if !slices.Equal(list, all) {
				t.Errorf("%s: %q, want %q", what, list, all)
			}
		}
		synctest.Wait()
		w.want("b", w.ask("POST", "/"+token+"/b", "b", "In: 2h"), 200)
		w.want("c", w.ask("POST", "/"+token+"/c", "c", "In: 2h"), 200)
		time.Sleep(50 * time.Minute)
		want("nothing yet")
		w.want("moved", w.ask("POST", "/"+token+"/a", "a moved", "In: 30m"), 200)
		time.Sleep(29 * time.Minute)
		want("moved")
		time.Sleep(2 * time.Minute)
		want("due", "a moved")
		w.want("withdrawn", w.ask("DELETE", "/"+token+"/b", ""), 200)
		w.want("at once", w.ask("POST", "/"+token+"/c", "c now"), 200)
		time.Sleep(5 * time.Second)
		want("at once", "c now")
		time.Sleep(3 * time.Hour)
		want("in the end")
		cancel()
		<-ended
	})
}

// pipeWriter is a response that is read while it is written.
type pipeWriter struct {
	header http.Header
	out    io.Writer
}

func (p pipeWriter) Header() http.Header         { return p.header }
func (p pipeWriter) WriteHeader(int)             {}
func (p pipeWriter) Write(b []byte) (int, error) { return p.out.Write(b) }
func (p pipeWriter) Flush()                      {}

// TestNtfySubscribe_OtherSite: a browser adds a password that it knows to WebSockets of other sites, but no token.
func TestNtfySubscribe_OtherSite(t *testing.T) {
	w, token := newNtfyWorld(t)
	g := w.gotify(admin)
	basic := func(password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte("admin:"+password))
	}
	for name, tt := range map[string]struct {
		path, authorization string
		refused             bool
	}{
		"a user's password":               {"/web-shop/ws", strings.TrimPrefix(admin, "Authorization: "), true},
		"a token as the password":         {"/any/ws", basic(token), true},
		"a client's as the password":      {"/web-shop/ws", basic(g.token), true},
		"Gotify's, a token as password":   {"/stream", basic(g.token), true},
		"a token":                         {"/any/ws", "Bearer " + token, false},
		"a token in the parameter auth":   {"/any/ws?auth=" + base64.RawURLEncoding.EncodeToString([]byte(basic(token))), "", false},
		"a token in the place of a topic": {"/" + token + "/ws", "", false},
	} {
		header := http.Header{"Origin": {"https://evil.example"}}
		if tt.authorization != "" {
			header.Set("Authorization", tt.authorization)
		}
		conn, resp, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(w.base, "http")+tt.path, &websocket.DialOptions{HTTPHeader: header}) //nolint:bodyclose // it has none
		if err == nil {
			_ = conn.CloseNow()
		}
		if (err != nil) != tt.refused || tt.refused && resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
}
