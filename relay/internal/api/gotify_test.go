package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"slipway/relay/internal/account"
	"slipway/relay/internal/post"
)

// gotify is a client of Gotify's with its token.
type gotify struct {
	*world
	id    int64
	token string
}

// gotify makes a client of a user.
func (w *world) gotify(auth string) gotify {
	w.Helper()
	made := w.ask("POST", "/client", `{"name":"phone"}`, auth)
	w.want("make a client", made, 200, "name", "phone")
	token, _ := made.fields["token"].(string)
	if !account.IsClientToken(token) || len(token) < 15 {
		w.Errorf("the token is %q", token)
	}
	id, _ := made.fields["id"].(float64)
	return gotify{w, int64(id), token}
}

func (g gotify) ask(method, path, body string) reply {
	g.Helper()
	return g.world.ask(method, path, body, "X-Gotify-Key: "+g.token)
}

// page reads a page and returns its texts and the address of the next.
func (g gotify) page(path string) (texts []string, next string) {
	g.Helper()
	r := g.ask("GET", path, "")
	g.want(path, r, 200)
	var list gotifyList
	if err := json.Unmarshal([]byte(r.body), &list); err != nil {
		g.Fatal(err)
	}
	for _, m := range list.Messages {
		texts = append(texts, m.Message)
	}
	return texts, list.Paging.Next
}

func (w *world) send(token string, texts ...string) {
	w.Helper()
	for _, text := range texts {
		w.want("send "+text, w.ask("POST", "/message", `{"token":"`+token+`","message":"`+text+`"}`), 200)
	}
}

var admin = basicHeader("admin", "correct horse")

func TestClients(t *testing.T) {
	w := newWorld(t, nil)
	g, other := w.gotify(admin), w.gotify(admin)
	for name, header := range map[string]string{"X-Gotify-Key": "X-Gotify-Key: " + g.token, "Bearer": "Authorization: Bearer " + g.token, "Basic": basicHeader("", g.token)} {
		w.want(name, w.ask("GET", "/current/user", "", header), 200, "name", "admin", "admin", true, "id", 1.0)
	}
	w.want("in the query", w.ask("GET", "/current/user?token="+g.token, ""), 200)
	list := g.ask("GET", "/client", "")
	if w.want("list", list, 200); strings.Count(list.body, `"token"`) != 1 || !strings.Contains(list.body, g.token) || !strings.Contains(list.body, `"lastUsed":"`) {
		t.Errorf("the list is %s", list.body)
	}
	if list := w.manage("GET", "/client", ""); strings.Contains(list.body, `"token"`) {
		t.Errorf("a user gets %s", list.body)
	}
	w.want("rename itself", g.ask("PUT", fmt.Sprint("/client/", g.id), `{"name":"tablet"}`), 200, "name", "tablet", "token", nil)
	w.want("rename another", g.ask("PUT", fmt.Sprint("/client/", other.id), `{"name":"x"}`), 404)
	w.want("delete another", g.ask("DELETE", fmt.Sprint("/client/", other.id), ""), 404)
	for _, forbidden := range []string{"GET /user", "GET /user/1", "POST /client", "POST /application", "GET /application/1", "GET /doctor", "GET /bot/recovery-key", "POST /message/1/redeliver", "GET /message/1"} {
		method, path, _ := strings.Cut(forbidden, " ")
		w.want(forbidden, g.ask(method, path, `{"name":"x"}`), 401)
	}
	w.want("send", g.ask("POST", "/message", `{"message":"m"}`), 401)
	w.want("delete itself", g.ask("DELETE", fmt.Sprint("/client/", g.id), ""), 200)
	w.want("its token", g.ask("GET", "/message", ""), 401)
	w.want("another user", w.manage("POST", "/user", `{"name":"maria","password":"long enough"}`), 201)
	maria := w.gotify(basicHeader("maria", "long enough"))
	w.want("of another user", maria.ask("DELETE", fmt.Sprint("/client/", other.id), ""), 404)
	w.want("delete the user", w.manage("DELETE", "/user/2", ""), 200)
	w.want("the token of a deleted user", maria.ask("GET", "/message", ""), 401)
	for range 99 {
		w.gotify(admin)
	}
	w.want("too many", w.manage("POST", "/client", `{"name":"x"}`), 409)
}

// Since version 3 Gotify's clients and users send for an application that they name.
func TestGotifySends(t *testing.T) {
	w, app := newFilesWorld(t)
	g := w.gotify(admin)
	w.want("user", w.manage("POST", "/user", `{"name":"maria","password":"long enough","matrix_id":"@maria:example.org"}`), 201)
	maria := basicHeader("maria", "long enough")
	hers := w.ask("POST", "/application", `{"name":"hers","room_id":"`+room+`"}`, maria)
	w.want("another's application", hers, 201)
	id, other := fmt.Sprint(app.Application.ID), fmt.Sprint(hers.fields["id"])

	key := "X-Gotify-Key: " + g.token
	for what, r := range map[string]reply{
		"client, JSON":  w.ask("POST", "/message", `{"message":"m","appid":`+id+`}`, key),
		"client, query": w.ask("POST", "/message?appid="+id, `{"message":"m"}`, key),
		"client, form":  w.ask("POST", "/message", "message=m&appid="+id, key, "Content-Type: application/x-www-form-urlencoded"),
		"user, JSON":    w.ask("POST", "/message", `{"message":"m","appid":`+id+`}`, admin),
		"user, query":   w.ask("POST", "/message?message=m&appid="+id, "", admin),
		"token, zero":   w.ask("POST", "/message", `{"message":"m","appid":0}`, "X-Gotify-Key: "+app.Token),
		"token, other":  w.ask("POST", "/message", `{"message":"m","appid":`+other+`}`, "X-Gotify-Key: "+app.Token),
	} {
		w.want(what, r, 200, "appid", float64(app.Application.ID))
	}
	withFile := `{"message":"m","attachments":[{"filename":"a","base64":"YQ=="}]`
	isJSON := "Content-Type: application/json"
	fields, isForm := form("message", "m", "appid", id, "file/a.txt", "a")
	w.want("user with a password like a client's token", w.manage("POST", "/user", `{"name":"carl","password":"Correct-horse","matrix_id":"@carl:example.org"}`), 201)
	carl := basicHeader("carl", "Correct-horse")
	his := w.ask("POST", "/application", `{"name":"his","room_id":"`+room+`"}`, carl)
	for what, r := range map[string]reply{
		"client, JSON with a file": w.ask("POST", "/message", withFile+`,"appid":`+id+`}`, key, isJSON),
		"user, JSON with a file":   w.ask("POST", "/message", withFile+`,"appid":`+id+`}`, admin, isJSON),
		"client, form with a file": w.ask("POST", "/message", fields, key, isForm),
		"user, like a token":       w.ask("POST", "/message?message=say+Correct-horse&appid="+fmt.Sprint(his.fields["id"]), "", carl),
	} {
		w.want(what, r, 200)
		if r.fields["message"] == "say …" {
			t.Errorf("%s: the message is %q", what, r.fields["message"])
		}
	}
	w.want("client, JSON with a file, none", w.ask("POST", "/message", withFile+"}", key, isJSON), 401)
	w.want("client, another's application", w.ask("POST", "/message?appid="+other, `{"message":"m"}`, key), 404)
	w.want("administrator, another's application", w.ask("POST", "/message?appid="+other, `{"message":"m"}`, admin), 404)
	w.want("client, none", w.ask("POST", "/message", `{"message":"m"}`, key), 401)
	w.want("user, none", w.ask("POST", "/message", `{"message":"m"}`, admin), 401)
	w.want("user, nothing", w.ask("POST", "/message", "", admin), 401)
	w.want("edit", w.ask("PUT", "/message/1?appid="+id, `{"message":"m"}`, key), 401)
	w.want("wrong password", w.ask("POST", "/message?appid="+id, `{"message":"m"}`, basicHeader("admin", "wrong")), 401)
	w.want("wrong client", w.ask("POST", "/message?appid="+id, `{"message":"m"}`, "X-Gotify-Key: Cwrong"), 401)
	w.want("from another site", w.ask("POST", "/message?appid="+id, `{"message":"m"}`, admin, "Sec-Fetch-Site: cross-site"), 403)

	w.want("a user has no client", w.ask("POST", "/auth/logout", "", admin), 403)
	w.want("log out", w.ask("POST", "/auth/logout", "", key), 200)
	w.want("a client that has logged out", w.ask("POST", "/message?appid="+id, `{"message":"m"}`, key), 401)
}

func TestGotifyReads(t *testing.T) {
	w := newWorld(t, nil)
	g, a, b := w.gotify(admin), w.app(named("a")), w.app(named("b"))
	w.want("user", w.manage("POST", "/user", `{"name":"maria","password":"long enough","matrix_id":"@maria:example.org"}`), 201)
	maria := basicHeader("maria", "long enough")
	w.want("another's application", w.ask("POST", "/application", `{"name":"hers","room_id":"`+room+`"}`, maria), 201)
	w.send(a.Token, "1", "2", "3")
	w.send(b.Token, "4", "5")
	check := func(what, path string, want ...string) (next string) {
		t.Helper()
		got, next := g.page(path)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
		return next
	}
	check("all", "/message", "5", "4", "3", "2", "1")
	next := check("the first page", "/message?limit=2", "5", "4")
	if next != "/message?limit=2&since=4" {
		t.Errorf("the next page is %q", next)
	}
	next = check("the second", next, "3", "2")
	if next = check("the last", next, "1"); next != "" {
		t.Errorf("after the last page comes %q", next)
	}
	path := fmt.Sprintf("/application/%d/message", a.Application.ID)
	check("of one application", path, "3", "2", "1")
	if next := check("a page of it", path+"?limit=1&since=3", "2"); next != path+"?limit=1&since=2" {
		t.Errorf("the next page of an application is %q", next)
	}
	w.want("another's application", g.ask("GET", "/application/3/message", ""), 404)
	w.want("no limit", g.ask("GET", "/message?limit=x", ""), 400, "field", "limit")

	w.want("hide one", g.ask("DELETE", "/message/2", ""), 200)
	w.want("hide what is not there", g.ask("DELETE", "/message/99", ""), 404)
	w.want("hide what is hidden", g.ask("DELETE", "/message/2", ""), 404)
	check("without the hidden one", path, "3", "1")
	w.want("hide an application's", g.ask("DELETE", path, ""), 200)
	check("without those of an application", "/message", "5", "4")
	w.send(a.Token, "6")
	check("with a later one", "/message", "6", "5", "4")
	w.want("hide all", g.ask("DELETE", "/message", ""), 200)
	check("nothing left", "/message")
	w.send(b.Token, "7")
	check("a later one", "/message", "7")
	for i := 1; i <= 7; i++ {
		if m := w.manage("GET", fmt.Sprint("/message/", i), ""); m.status != 200 || m.fields["status"] == string(post.StateRedacted) || m.fields["status"] == string(post.StateCancelled) {
			t.Errorf("message %d: %s", i, m.body)
		}
	}
	if list := w.manage("GET", "/message", ""); strings.Count(list.body, `"status_url"`) != 7 {
		t.Errorf("others see %s", list.body)
	}
	w.want("withdraw", w.manage("DELETE", "/message/7", ""), 200)
	check("without the withdrawn one", "/message")

	apps := g.ask("GET", "/application", "")
	var list []gotifyApplication
	if err := json.Unmarshal([]byte(apps.body), &list); err != nil || len(list) != 2 || list[0].Name != "a" || list[0].DefaultPriority != 5 || strings.Count(apps.body, `"token":""`) != 2 || strings.Count(apps.body, `"token"`) != 2 {
		t.Errorf("the applications are %s, %v", apps.body, err)
	}
}

// TestGotifyShape: priorities and formats are translated for Gotify's clients.
func TestGotifyShape(t *testing.T) {
	w := newWorld(t, nil)
	g, a := w.gotify(admin), w.app(named("a"))
	for _, tt := range []struct {
		body, message, extras string
		priority              int
	}{
		{`{"message":"a *b*","priority":-2}`, "a *b*", `{"client::display":{"contentType":"text/markdown"}}`, 1},
		{`{"message":"m","priority":2,"extras":{"x":1}}`, "m", `{"client::display":{"contentType":"text/markdown"},"x":1}`, 10},
		{`{"message":"m","priority":1,"extras":{"client::display":{"contentType":"text/plain"}}}`, "m", `{"client::display":{"contentType":"text/plain"}}`, 8},
		{`{"message":"<b>m</b>","extras":{"client::display":{"contentType":"text/html"}}}`, "m", `{"client::display":{"contentType":"text/html"}}`, 5},
		{`{"message":"silent","priority":0}`, "silent", "", 0},
		{`{"message":"as sent","priority":7}`, "as sent", "", 7},
		{`{"message":"none"}`, "none", "", 5},
	} {
		if tt.extras == "" { // as a sender of Gotify's
			w.want(tt.body, w.ask("POST", "/message", tt.body, "X-Gotify-Key: "+a.Token), 200)
		} else {
			w.want(tt.body, w.ask("POST", "/message", `{"token":"`+a.Token+`",`+tt.body[1:]), 200)
		}
		var list gotifyList
		if err := json.Unmarshal([]byte(g.ask("GET", "/message?limit=1", "").body), &list); err != nil {
			t.Fatal(err)
		}
		if m := list.Messages[0]; m.Message != tt.message || string(m.Extras) != tt.extras || m.Priority != tt.priority || time.Since(m.Date) > time.Minute {
			t.Errorf("%s is read as %+v, %s", tt.body, m, m.Extras)
		}
	}
}

func TestGotifyImage(t *testing.T) {
	w := newWorld(t, nil)
	g, a := w.gotify(admin), w.app(named("a"))
	image := func() string {
		var list []gotifyApplication
		if err := json.Unmarshal([]byte(g.ask("GET", "/application", "").body), &list); err != nil {
			t.Fatal(err)
		}
		return "/" + list[0].Image
	}
	if r := w.ask("GET", image(), ""); r.status != 200 || r.header.Get("Content-Type") != "image/png" {
		t.Errorf("none: %d, %q", r.status, r.body)
	}
	w.want("set", w.manage("POST", fmt.Sprintf("/application/%d/image", a.Application.ID), onePixel), 200)
	if r := w.ask("GET", image(), ""); r.status != 200 || r.body != onePixel || r.header.Get("Content-Type") != "image/gif" {
		t.Errorf("%d, %q", r.status, r.body)
	}
	w.want("guessed", w.ask("GET", "/image/1-00000000000000000000000000000000", ""), 404)
	w.want("no id", w.ask("GET", "/image/x", ""), 404)
}

// websocket opens Gotify's stream.
func (g gotify) websocket(query string) *websocket.Conn {
	g.Helper()
	conn, _, err := websocket.Dial(g.Context(), "ws"+strings.TrimPrefix(g.base, "http")+"/stream?token="+g.token+query, nil) //nolint:bodyclose // it has none
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(func() { _ = conn.CloseNow() })
	return conn
}

// next returns the text of the next message of a stream.
func (g gotify) next(conn *websocket.Conn) string {
	g.Helper()
	return g.nextMessage(conn).Message
}

func (g gotify) nextMessage(conn *websocket.Conn) (m gotifyMessage) {
	g.Helper()
	ctx, cancel := context.WithTimeout(g.Context(), time.Minute)
	defer cancel()
	_, text, err := conn.Read(ctx)
	if err != nil {
		g.Fatal(err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		g.Fatal(err)
	}
	return m
}

func TestStream(t *testing.T) {
	w := newWorld(t, nil)
	g, a := w.gotify(admin), w.app(named("a"))
	w.send(a.Token, "1", "2", "3")
	now, later := g.websocket(""), g.websocket("&after=1")
	for _, want := range []string{"2", "3"} {
		if got := g.next(later); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	for n := range 5 {
		text := fmt.Sprint("text ", n)
		w.send(a.Token, text)
		for _, conn := range []*websocket.Conn{now, later} {
			if got := g.next(conn); got != text {
				t.Fatalf("%q, want %q", got, text)
			}
		}
	}
	if err := now.Ping(now.CloseRead(t.Context())); err != nil {
		t.Error(err)
	}
	w.want("delete the client", w.manage("DELETE", fmt.Sprint("/client/", g.id), ""), 200)
	if _, _, err := later.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("the stream of a deleted client ends with %v", err)
	}
}

// TestStream_OtherSite: a browser adds a password that it knows to requests of other sites, but no token.
func TestStream_OtherSite(t *testing.T) {
	w := newWorld(t, nil)
	g := w.gotify(admin)
	upgrade := []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Origin: https://evil.example"}
	w.want("by password", w.ask("GET", "/stream", "", append(upgrade, admin)...), 403)
	conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(w.base, "http")+"/stream?token="+g.token, &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"https://app.example"}}}) //nolint:bodyclose // it has none
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.CloseNow()
}

// events opens the stream of events and returns its lines.
func (w *world) events(headers ...string) (lines *bufio.Scanner) {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), http.MethodGet, w.base+"/message/stream", nil)
	if err != nil {
		w.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = resp.Body.Close() })
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || got != "text/event-stream" {
		w.Fatalf("%d, %s", resp.StatusCode, got)
	}
	return bufio.NewScanner(resp.Body)
}

// line returns the next line of a kind.
func line(t *testing.T, lines *bufio.Scanner, kind string) string {
	t.Helper()
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), kind+": "); ok {
			return text
		}
	}
	t.Fatalf("no line %s: %v", kind, lines.Err())
	return ""
}

func TestEvents(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.app(named("a")), w.app(named("b"))
	w.send(a.Token, "1", "2")
	key := "X-Gotify-Key: " + a.Token
	lines := w.events(key)
	if got := line(t, lines, "id"); got != "2" {
		t.Errorf("a new reader begins after %s", got)
	}
	w.send(b.Token, "3")
	w.send(a.Token, "4")
	if got := line(t, lines, "id"); got != "4" {
		t.Errorf("the first message is %s", got)
	}
	var m messageJSON
	if err := json.Unmarshal([]byte(line(t, lines, "data")), &m); err != nil || m.ID != 4 || m.Message.Message != "4" || m.Application != "a" {
		t.Errorf("it is %+v, %v", m, err)
	}
	if got := line(t, lines, "event"); got != "change" {
		t.Errorf("an event %s", got)
	}
	again := w.events(key, "Last-Event-ID: 1")
	for _, want := range []string{"1", "2", "4"} {
		if got := line(t, again, "id"); got != want {
			t.Errorf("continued with %s, want %s", got, want)
		}
	}
	all := w.events(admin, "Last-Event-ID: 2")
	for _, want := range []string{"2", "3", "4"} {
		if got := line(t, all, "id"); got != want {
			t.Errorf("an administrator gets %s, want %s", got, want)
		}
	}
}

// TestEvents_Stopping: a relay that stops does not wait for readers.
func TestEvents_Stopping(t *testing.T) {
	w := newWorld(t, nil)
	stopping := make(chan struct{})
	w.api.o.Stopping = stopping
	g := w.gotify(admin)
	conn, lines := g.websocket(""), w.events(admin)
	line(t, lines, "id")
	close(stopping)
	for lines.Scan() {
	}
	if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the stream ends with %v", err)
	}
}

// TestGotifyAlert: a change of an alert is news for readers, and a list has its last state only.
func TestGotifyAlert(t *testing.T) {
	w := newWorld(t, nil)
	g, a := w.gotify(admin), w.app(named("a"))
	conn, lines := g.websocket(""), w.events(admin)
	report := func(text string) {
		t.Helper()
		r := w.ask("POST", "/message?wait=30s", `{"token":"`+a.Token+`","key":"disk","message":"`+text)
		w.want(text, r, 200)
	}
	event := func(want string) {
		t.Helper()
		var m messageJSON
		for m.ID == 0 { // a change of state has none
			if err := json.Unmarshal([]byte(line(t, lines, "data")), &m); err != nil {
				t.Fatal(err)
			}
		}
		if m.ID != 1 || m.Message.Message != want {
			t.Errorf("an event is %+v, want %s", m, want)
		}
	}
	report(`90 % full"}`)
	event("90 % full")
	if got := g.next(conn); got != "90 % full" {
		t.Errorf("it begins with %q", got)
	}
	report(`20 % full","resolved":true}`)
	event("20 % full")
	end := g.next(conn)
	if !strings.Contains(end, "Resolved") || !strings.HasSuffix(end, "20 % full") {
		t.Errorf("it ends with %q", end)
	}
	if texts, _ := g.page("/message"); !slices.Equal(texts, []string{end}) {
		t.Errorf("the list is %q", texts)
	}
	w.want("hide the message that was changed", g.ask("DELETE", "/message/1", ""), 200)
	w.want("withdraw", w.manage("DELETE", "/message/1", ""), 200)
	if texts, _ := g.page("/message"); len(texts) > 0 {
		t.Errorf("withdrawn, the list is %q", texts)
	}
}
