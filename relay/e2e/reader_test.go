package e2e

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"slipway/shared/programtest"
)

// pythonReader reads as Gotify's Android app does, with the library python-gotify.
//
//go:embed testdata/gotifyreader.py
var pythonReader string

// collected are the texts that a reader has got, in order.
type collected struct {
	mu    sync.Mutex
	texts []string
	from  map[string]int // how many came by which way
}

func (c *collected) add(way, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.from == nil {
		c.from = map[string]int{}
	}
	c.from[way]++
	if text != "" {
		c.texts = append(c.texts, text)
	}
}

// times returns how often something happened.
func (c *collected) times(way string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.from[way]
}

func (c *collected) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string{}, c.texts...)
}

// TestReaders_RelayKilledAgainAndAgain_MissNothing: a reader of Gotify's, one that resumes the WebSocket and one that resumes the
// server-sent events get each message once and in order, while the relay is killed between messages.
func TestReaders_RelayKilledAgainAndAgain_MissNothing(t *testing.T) {
	const kills, each = 2, 5
	s := newSite(t)
	s.start()
	a := s.application("read", "")
	client := s.client("phone")
	ctx, stop := context.WithCancel(s.ctx)
	var reading sync.WaitGroup
	defer func() { stop(); reading.Wait() }()
	python, socket, events := &collected{}, &collected{}, &collected{}
	reading.Go(func() { s.readPython(ctx, client, python) })
	reading.Go(func() { s.readSocket(ctx, client, socket, s.addr) })
	reading.Go(func() { s.readEvents(ctx, a.token, events) })
	var want []string
	opened := 0
	for round := range kills + 1 {
		for n := range each {
			if n == each-1 {
				s.eventually("the reader in Python has caught up", func() bool { return python.times("open") > opened })
			}
			text := fmt.Sprint(round, ".", n)
			s.insist(a, text)
			want = append(want, text)
		}
		for name, c := range map[string]*collected{"python": python, "WebSocket": socket, "events": events} {
			s.eventually(fmt.Sprint(name, " has ", len(want), " messages"), func() bool { return len(c.all()) >= len(want) })
		}
		if round < kills {
			opened = python.times("open")
			s.kill()
			s.launch()
		}
	}
	s.arrives(a.room, want...)
	for name, c := range map[string]*collected{"python": python, "WebSocket": socket, "events": events} {
		if got := strings.Join(c.all(), " "); got != strings.Join(want, " ") {
			t.Errorf("%s got %s, want %s", name, got, strings.Join(want, " "))
		}
	}
	if python.times("stream") < kills {
		t.Errorf("%d messages came by Gotify's stream", python.times("stream"))
	}
}

// Relays that share a database are killed in turn while several senders post behind nginx. A reader that moves from one relay to
// nginx and to the other relay, and one behind nginx, get each message once, in the same order.
func TestFull_SeveralRelays_ReadersMoveBetweenThem_MissNothing(t *testing.T) {
	const senders, each = 4, 30
	stub := newStub(t)
	f := newFleet(t, stub.url, 2)
	for _, m := range f.relays {
		m.start()
	}
	apps := make([]app, senders)
	for i := range apps {
		apps[i] = f.application(fmt.Sprint("sender", i), "")
	}
	client := f.client("phone")
	ctx, stop := context.WithCancel(f.ctx)
	var reading, sending sync.WaitGroup
	defer func() { stop(); reading.Wait() }()
	direct, behind := &collected{}, &collected{}
	reading.Go(func() {
		f.readSocket(ctx, client, direct, f.relays[0].addr, strings.TrimPrefix(f.url, "http://"), f.relays[1].addr)
	})
	reading.Go(func() { f.readEvents(ctx, client, behind) })
	for i := range apps {
		sending.Go(func() {
			for n := range each {
				f.insist(apps[i], fmt.Sprintf("%d.%d", i, n))
			}
		})
	}
	for n, m := range f.relays {
		f.within(3*time.Minute, "messages come", func() bool { return len(direct.all()) > n*senders*each/3 })
		m.kill()
		m.start()
	}
	sending.Wait()
	f.within(2*time.Minute, "all have come", func() bool { return len(direct.all()) >= senders*each && len(behind.all()) >= senders*each })
	texts := map[string]bool{}
	for _, text := range direct.all() {
		texts[text] = true
	}
	if got := direct.all(); len(texts) != senders*each || len(got) != senders*each || strings.Join(got, " ") != strings.Join(behind.all(), " ") {
		t.Errorf("directly came %d messages, %d of them different:\n%s\nbehind nginx:\n%s", len(got), len(texts), got, behind.all())
	}
}

// client makes a client of the administrator and returns its token.
func (s *site) client(name string) string {
	s.Helper()
	status, out := s.ask(http.MethodPost, "/client", object{"name": name})
	if status != http.StatusOK || out.text("token") == "" {
		s.Fatalf("POST /client: %d %v", status, out)
	}
	return out.text("token")
}

// readPython runs the reader, which prints a line for each message: how it came, and its text.
func (s *site) readPython(ctx context.Context, token string, into *collected) {
	cmd := exec.CommandContext(ctx, programtest.Tool(s.T, "python-clients"), "-c", pythonReader, s.url, token)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.Error(err)
		return
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		way, text, _ := strings.Cut(lines.Text(), " ")
		into.add(way, text)
	}
	if err := cmd.Wait(); err != nil && ctx.Err() == nil {
		s.Errorf("the reader in Python: %v", err)
	}
}

// readSocket reads the stream at one of the addresses. Whenever the connection is lost, it continues after the last message at the next.
func (s *site) readSocket(ctx context.Context, token string, into *collected, addrs ...string) {
	last := int64(0)
	for n := 0; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		addr := addrs[n%len(addrs)]
		n++
		conn, _, err := websocket.Dial(ctx, fmt.Sprintf("ws://%s/stream?token=%s&after=%d", addr, token, last), nil) //nolint:bodyclose // it has none
		for err == nil {
			var text []byte
			if _, text, err = conn.Read(ctx); err == nil {
				var m struct {
					ID      int64
					Message string
				}
				s.must(json.Unmarshal(text, &m))
				into.add("stream", m.Message)
				last = m.ID
			}
		}
		if conn != nil {
			_ = conn.CloseNow()
		}
	}
}

// readEvents reads the server-sent events as a browser does.
func (s *site) readEvents(ctx context.Context, token string, into *collected) {
	last := ""
	for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/message/stream", nil)
		s.must(err)
		req.Header.Set("Authorization", "Bearer "+token)
		if last != "" {
			req.Header.Set("Last-Event-ID", last)
		} else {
			req.URL.RawQuery = "after=0"
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch {
			case name == "id":
				last = value
			case name == "data" && value != "{}":
				var m object
				s.must(json.Unmarshal([]byte(value), &m))
				into.add("stream", m.text("message"))
			}
		}
		_ = resp.Body.Close()
	}
}
