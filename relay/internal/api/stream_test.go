package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"slipway/relay/internal/protocol/webhook"
	"slipway/shared/server"
)

// closes waits until only n streams are open.
func (w *world) closes(what string, n int) {
	w.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if w.api.streams.Held() == n {
			return
		}
	}
	w.Fatalf("%s: %d streams are open, want %d", what, w.api.streams.Held(), n)
}

// A reader that takes nothing is cut off. Others go on, and it comes back for what it missed.
func TestStream_SlowReader(t *testing.T) {
	t.Parallel()
	const messages = 300
	w := newWorld(t, nil)
	w.api.times.write = 3 * time.Second
	g, a := w.gotify(admin), w.app(named("a"))
	slow, quick := g.websocket(""), g.websocket("")
	text := strings.Repeat("x", 50<<10)
	var ids []int64
	var reading sync.WaitGroup
	reading.Go(func() {
		quick.SetReadLimit(1 << 20)
		for n := range messages {
			m := g.nextMessage(quick)
			if m.Message != fmt.Sprint(n, text) {
				t.Errorf("message %d is %.10s…", n, m.Message)
				return
			}
			ids = append(ids, m.ID)
		}
	})
	for n := range messages {
		w.send(a.Token, fmt.Sprint(n, text))
	}
	if reading.Wait(); len(ids) != messages {
		t.FailNow()
	}
	w.closes("the slow reader is cut off", 1)
	_ = slow.CloseNow()
	again := g.websocket(fmt.Sprint("&after=", ids[messages-2]))
	again.SetReadLimit(1 << 20)
	if got := g.next(again); got != fmt.Sprint(messages-1, text) {
		t.Errorf("continued with %.10s…", got)
	}
}

// The server pings, and cuts off a reader that does not answer.
func TestStream_Pings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.api.times.ping, w.api.times.pong = 20*time.Millisecond, 5*time.Second
	g := w.gotify(admin)
	deaf := g.websocket("") // answers only while it reads
	var pings atomic.Int64
	enough := make(chan struct{})
	conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(w.base, "http")+"/stream?token="+g.token, &websocket.DialOptions{ //nolint:bodyclose // it has none
		OnPingReceived: func(context.Context, []byte) bool {
			if pings.Add(1) == 100 {
				close(enough)
			}
			return true
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx := conn.CloseRead(t.Context())
	w.closes("one that does not answer", 1)
	select {
	case <-enough:
	case <-ctx.Done():
		t.Errorf("after %d pings the stream has ended", pings.Load())
	case <-time.After(time.Minute):
		t.Errorf("%d pings came", pings.Load())
	}
	_ = conn.Close(websocket.StatusNormalClosure, "")
	_ = deaf.CloseNow()
	w.closes("all", 0)
}

// Readers send nothing. One that sends much is cut off.
func TestStream_ReaderSends(t *testing.T) {
	w := newWorld(t, nil)
	g := w.gotify(admin)
	conn := g.websocket("")
	for _, tt := range []struct {
		text string
		open int
	}{{"short", 1}, {strings.Repeat("x", 65), 0}} {
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(tt.text)); err != nil {
			t.Fatal(err)
		}
		w.closes(tt.text, tt.open)
	}
}

// A user's streams are bounded, together with those of the user's applications; those of others are not affected.
func TestStream_TooMany(t *testing.T) {
	w := newWorld(t, nil)
	g, a := w.gotify(admin), w.app(named("a"))
	for range shareStreams {
		g.websocket("")
	}
	w.closes("all are open", shareStreams)
	w.want("one more", g.ask("GET", "/stream", ""), 429)
	w.want("one of an application", w.ask("GET", "/message/stream", "", "X-Gotify-Key: "+a.Token), 429)
	w.want("another user", w.manage("POST", "/user", `{"name":"anna","password":"quite a long password"}`), 201)
	lines := w.events(basicHeader("anna", "quite a long password"))
	line(t, lines, "id")
}

// eventReader is a response that reads events; a stuck one stops at the first message.
type eventReader struct {
	http.ResponseWriter
	stuck    bool
	messages *atomic.Int64
	leave    <-chan struct{}
}

func (r eventReader) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(`"message"`)) {
		r.messages.Add(1)
		if r.stuck {
			<-r.leave
			return 0, io.ErrClosedPipe
		}
	}
	return len(p), nil
}

func (r eventReader) Flush() {}

// Of many readers that read nothing few hold messages in memory, and other users' readers get theirs.
func TestEvents_ReadersThatReadNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldWithoutNetwork(t, nil, webhook.Registry(nil))
		a := w.app(named("a"))
		w.send(a.Token, "x")
		w.want("another user", w.manage("POST", "/user", `{"name":"anna","password":"quite a long password"}`), 201)
		anna, err := w.service.Authenticate(t.Context(), "anna", "quite a long password", "test")
		if err != nil {
			t.Fatal(err)
		}
		hers, err := w.service.CreateApplication(t.Context(), anna, named("hers"))
		if err != nil {
			t.Fatal(err)
		}
		w.send(hers.Token, "y")
		ctx, cancel := context.WithCancel(t.Context())
		var reading sync.WaitGroup
		read := func(token string, stuck bool) *atomic.Int64 {
			n := &atomic.Int64{}
			for range 20 {
				req := httptest.NewRequestWithContext(ctx, http.MethodGet, "/message/stream?after=0", nil)
				req.Header.Set("X-Gotify-Key", token)
				reading.Go(func() {
					w.api.ServeHTTP(eventReader{httptest.NewRecorder(), stuck, n, ctx.Done()}, req)
				})
			}
			synctest.Wait()
			return n
		}
		if n := read(a.Token, true); n.Load() != shareHolding {
			t.Errorf("%d hold a message", n.Load())
		}
		if n := read(hers.Token, false); n.Load() != 20 {
			t.Errorf("%d of another user got the message", n.Load())
		}
		cancel()
		reading.Wait()
	})
}

// Events come over any version of HTTP after a silence that is longer than the server lets an answer stall.
func TestEvents_Silence(t *testing.T) {
	t.Parallel()
	const stall = 200 * time.Millisecond
	w := newWorld(t, nil)
	a := w.app(named("a"))
	s, err := server.Listen(server.Options{Name: "test", Addr: "127.0.0.1:0", Handler: w.api, H2C: true, StallTimeout: stall})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Run(ctx, time.Second, s) })
	t.Cleanup(func() { stop(); serving.Wait() })
	for version := 1; version <= 2; version++ {
		var p http.Protocols
		p.SetHTTP1(version == 1)
		p.SetUnencryptedHTTP2(version == 2)
		transport := &http.Transport{Protocols: &p}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr().String()+"/message/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Gotify-Key", a.Token)
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(resp.Body)
		line(t, lines, "id")
		time.Sleep(4 * stall)
		w.send(a.Token, "after a silence")
		got := "{}"
		for got == "{}" { // a change of the message before
			got = line(t, lines, "data")
		}
		if resp.ProtoMajor != version || !strings.Contains(got, "after a silence") {
			t.Errorf("HTTP/%d: %s", resp.ProtoMajor, got)
		}
		_ = resp.Body.Close()
	}
}

// A stream shows no more than its user may see, also when the user is no administrator any more.
func TestEvents_AdministratorNoMore(t *testing.T) {
	w := newWorld(t, nil)
	w.api.times.check, w.api.times.ping = time.Millisecond, 20*time.Millisecond
	a := w.app(named("a"))
	w.want("a second administrator", w.manage("POST", "/user", `{"name":"second","password":"quite a long password","is_admin":true}`), 201)
	second, err := w.service.Authenticate(t.Context(), "second", "quite a long password", "test")
	if err != nil {
		t.Fatal(err)
	}
	lines := w.events("Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("second:quite a long password")))
	w.send(a.Token, "seen")
	for got := ""; !strings.Contains(got, "seen"); {
		got = line(t, lines, "data")
	}
	w.want("is demoted", w.manage("PUT", fmt.Sprint("/user/", second.UserID), `{"is_admin":false}`), 200)
	w.closes("the stream ends", 0)
}

// A stream of a name and a password ends with them, before the next check of the database.
func TestEvents_PasswordChanges(t *testing.T) {
	for what, change := range map[string]string{"another password": `{"password":"another long password"}`, "no administrator": `{"is_admin":false}`, "deleted": ""} {
		w := newWorld(t, nil)
		w.api.times.check = time.Hour
		w.want("a second administrator", w.manage("POST", "/user", `{"name":"second","password":"quite a long password","is_admin":true}`), 201)
		second, err := w.service.Authenticate(t.Context(), "second", "quite a long password", "test")
		if err != nil {
			t.Fatal(err)
		}
		login := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("second:quite a long password"))
		w.events(login)
		w.closes("it is open", 1)
		w.want("a change of another user", w.manage("POST", "/user", `{"name":"third","password":"quite a long password"}`), 201)
		if change == "" {
			w.want(what, w.manage("DELETE", fmt.Sprint("/user/", second.UserID), ""), 200)
		} else {
			w.want(what, w.manage("PUT", fmt.Sprint("/user/", second.UserID), change), 200)
		}
		w.closes(what, 0)
	}
}

// An answer to HEAD has no events and ends.
func TestEvents_Head(t *testing.T) {
	w := newWorld(t, nil)
	if r := w.ask("HEAD", "/message/stream", "", admin); r.status != 200 || r.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%d %v", r.status, r.header)
	}
	w.closes("none is open", 0)
}
