package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"slipway/relay/internal/servertest"
	"slipway/relay/internal/store"
)

// homeserver is the one that all packages share, for the tests that need a real one.
var homeserver = sync.OnceValues(func() (*servertest.Homeserver, error) { return servertest.SharedSynapse(context.Background()) })

// world is a bot with its rules behind a fault proxy, and a person in the room.
type world struct {
	*testing.T
	ctx    context.Context
	server *servertest.Homeserver
	proxy  *servertest.Proxy
	owner  *servertest.User
	db     *store.Store
	heard  *heard
	bot    *Client
	name   string
	logs   *observer.ObservedLogs
}

// newWorld starts what a test needs; the bot is connected but does not sync.
func newWorld(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a homeserver; `make test` runs it")
	}
	t.Parallel()
	server, err := homeserver()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	w := &world{T: t, ctx: ctx, server: server, name: servertest.Name()}
	if w.proxy, err = servertest.StartProxy(server.URL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.proxy.Close)
	if w.owner, err = server.NewUser(ctx, w.name+"owner", false); err != nil {
		t.Fatal(err)
	}
	if err := server.CreateUser(ctx, w.name+"bot", "bot-password", false); err != nil {
		t.Fatal(err)
	}
	w.db = newStore(t, w.owner.ID)
	w.bot = w.newBot(Options{Username: w.name + "bot", Password: "bot-password"})
	return w
}

// newBot makes a client over the same stored settings, as the next start would.
func (w *world) newBot(o Options) *Client {
	w.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	w.logs = logs
	o.Homeserver, o.Store, o.Log = w.proxy.URL, w.db, zap.New(core)
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	c, err := New(o)
	if err != nil {
		w.Fatal(err)
	}
	w.heard = listen(w.T, c)
	w.Cleanup(c.Close)
	return c
}

// run lets the bot sync until the test ends or stop is called.
func (w *world) run(c *Client) (stop func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan struct{})
	go func() { c.Run(ctx); close(done) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	w.Cleanup(stop)
	return stop
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// connect logs in. A busy machine may take longer for a login than the client's timeout.
func (w *world) connect() {
	w.Helper()
	for {
		err := w.bot.Probe(w.ctx)
		if err == nil {
			return
		}
		select {
		case <-w.ctx.Done():
			w.Fatal(err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// room makes a room of the bot's that the owner is in.
func (w *world) room() string {
	w.Helper()
	id, err := w.bot.Create(w.ctx, NewRoom{Name: "hall", Topic: "topic", Invite: []string{w.owner.ID}})
	w.must(err)
	w.must(w.owner.Join(w.ctx, id))
	return id
}

func (w *world) ownersRoom(extra map[string]any) string {
	w.Helper()
	id, err := w.owner.CreateRoom(w.ctx, "owner's", nil, extra)
	w.must(err)
	return id
}

func text(body, marker string) json.RawMessage {
	return json.RawMessage(`{"body":"` + body + `","io.slipway.relay":{"m":"` + marker + `"},"m.mentions":{},"msgtype":"m.text"}`)
}

func (w *world) send(room, txn, body string) (string, error) {
	return w.bot.Send(w.ctx, Outgoing{RoomID: room, TxnID: txn, Device: w.bot.Device(), EventType: "m.room.message", Content: text(body, txn)})
}

// bodies are the texts that the owner can read in the room.
func (w *world) bodies(room string) []string {
	w.Helper()
	events, err := w.owner.Messages(w.ctx, room, "m.room.message")
	w.must(err)
	var all []string
	for _, e := range events {
		all = append(all, e.Field("body"))
	}
	return all
}

func (w *world) wantBodies(room string, want ...string) {
	w.Helper()
	if got := w.bodies(room); !slices.Equal(got, want) {
		w.Errorf("in the room: %q, want %q", got, want)
	}
}

func (w *world) wantClass(err error, want Class) *SendError {
	w.Helper()
	var failed *SendError
	if !errors.As(err, &failed) {
		w.Fatalf("error = %v, want class %s", err, want)
	}
	if failed.Class != want {
		w.Fatalf("error = %v of class %s, want %s", failed, failed.Class, want)
	}
	if failed.Reason == "" {
		w.Errorf("class %s without a reason", want)
	}
	return failed
}

// eventually waits until a condition holds, however busy the machine is.
func (w *world) eventually(what string, holds func() bool) {
	w.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
	}
	w.Fatalf("never: %s; heard: %q", what, w.heard.all())
}

// noSecrets holds the log against what must never be in it.
func (w *world) noSecrets(secrets ...string) {
	w.Helper()
	for _, entry := range w.logs.All() {
		line := fmt.Sprint(entry.Message, entry.ContextMap())
		for _, secret := range secrets {
			if strings.Contains(line, secret) {
				w.Errorf("log line holds a secret: %s", line)
			}
		}
	}
}

// newStore is a relay's database with a user for each Matrix ID.
func newStore(t testing.TB, users ...string) *store.Store {
	t.Helper()
	db, err := store.Open(context.Background(), filepath.Join(t.TempDir(), "relay.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for _, user := range users {
		addUser(t, db, user)
	}
	return db
}

func addUser(t testing.TB, db *store.Store, matrixID string) {
	t.Helper()
	err := db.Update(context.Background(), func(tx *store.Tx) error {
		return tx.SaveUser(&store.User{Name: matrixID, MatrixID: matrixID})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// heard are the events of a client, as text.
type heard struct {
	mu    sync.Mutex
	lines []string
}

// listen reads a client's events until the test ends.
func listen(t testing.TB, c *Client) *heard {
	h := &heard{}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-c.Events():
				kind := strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", e), "matrix."))
				h.mu.Lock()
				h.lines = append(h.lines, strings.TrimSpace(kind+" "+strings.Trim(fmt.Sprint(e), "{}")))
				h.mu.Unlock()
			}
		}
	}()
	return h
}

func (h *heard) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.lines)
}

func (h *heard) has(line string) func() bool {
	return func() bool { return slices.Contains(h.all(), line) }
}
