package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"slipway/relay/internal/faultproxy"
	"slipway/relay/internal/relay"
	"slipway/relay/internal/synapse"
)

// homeserver is started once for the tests of the package that need a real one.
var homeserver = sync.OnceValues(func() (*synapse.Server, error) {
	dir, err := os.MkdirTemp("", "matrix-test-")
	if err != nil {
		return nil, err
	}
	homeserverDir = dir
	return synapse.Start(context.Background(), synapse.Options{Dir: dir})
})

var homeserverDir string

func TestMain(m *testing.M) {
	code := m.Run()
	if homeserverDir != "" {
		if s, err := homeserver(); err == nil {
			s.Stop()
		}
		os.RemoveAll(homeserverDir)
	}
	os.Exit(code)
}

// world is a bot with its rules behind a fault proxy, and a person who looks on.
type world struct {
	*testing.T
	ctx    context.Context
	server *synapse.Server
	proxy  *faultproxy.Proxy
	owner  *synapse.User
	rules  *fakeRules
	bot    *Client
	name   string
	logs   *observer.ObservedLogs
}

var names struct {
	sync.Mutex
	n int
}

func newName() string {
	names.Lock()
	defer names.Unlock()
	names.n++
	return fmt.Sprintf("u%d-", names.n)
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
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	w := &world{T: t, ctx: ctx, server: server, name: newName()}
	if w.proxy, err = faultproxy.Start(server.URL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.proxy.Close)
	if w.owner, err = server.NewUser(ctx, w.name+"owner", false); err != nil {
		t.Fatal(err)
	}
	if err := server.CreateUser(ctx, w.name+"bot", "bot-password", false); err != nil {
		t.Fatal(err)
	}
	w.rules = newFakeRules(w.owner.ID)
	w.bot = w.newBot(Options{Username: w.name + "bot", Password: "bot-password"})
	return w
}

// newBot makes a client over the same stored settings, as the next start would.
func (w *world) newBot(o Options) *Client {
	w.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	w.logs = logs
	o.Homeserver, o.Log = w.proxy.URL, zap.New(core)
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	c, err := New(o)
	if err != nil {
		w.Fatal(err)
	}
	c.Attach(w.rules)
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

func (w *world) connect() {
	w.Helper()
	w.must(w.bot.Probe(w.ctx))
}

// room makes a room of the bot's that the owner is in.
func (w *world) room() string {
	w.Helper()
	id, err := w.bot.Create(w.ctx, relay.NewRoom{Name: "hall", Topic: "topic", Invite: []string{w.owner.ID}})
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
	return w.bot.Send(w.ctx, relay.Outgoing{RoomID: room, TxnID: txn, Device: w.bot.Device(), EventType: "m.room.message", Content: text(body, txn)})
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

func (w *world) wantClass(err error, want relay.Class) *relay.SendError {
	w.Helper()
	var failed *relay.SendError
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

// eventually waits until a condition holds.
func (w *world) eventually(what string, holds func() bool) {
	w.Helper()
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
	}
	w.Fatalf("never: %s; told: %q", what, w.rules.told())
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

// fakeRules keep settings in memory and remember what they are told.
type fakeRules struct {
	mu       sync.Mutex
	users    []string
	settings map[string]string
	log      []string
}

func newFakeRules(users ...string) *fakeRules {
	return &fakeRules{users: users, settings: map[string]string{}}
}

func (f *fakeRules) tell(parts ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, strings.Join(parts, " "))
}

func (f *fakeRules) told() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

func (f *fakeRules) knows(line string) func() bool {
	return func() bool { return slices.Contains(f.told(), line) }
}

func (f *fakeRules) RoomJoined(room string)          { f.tell("joined", room) }
func (f *fakeRules) RoomLeft(room, reason string)    { f.tell("left", room, reason) }
func (f *fakeRules) RoomNamed(room, name string)     { f.tell("named", room, name) }
func (f *fakeRules) RoomEncrypted(room string)       { f.tell("encrypted", room) }
func (f *fakeRules) RoomReplaced(before, now string) { f.tell("replaced", before, now) }
func (f *fakeRules) Echo(room, txn, id string)       { f.tell("echo", room, txn, id) }
func (f *fakeRules) Resume()                         { f.tell("resume") }

func (f *fakeRules) MatrixUsers(context.Context) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.users), nil
}

func (f *fakeRules) Setting(_ context.Context, key string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.settings[key], nil
}

func (f *fakeRules) SetSetting(_ context.Context, key, value string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settings[key] = value
	return nil
}

func (f *fakeRules) copySettings() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.settings)
}
