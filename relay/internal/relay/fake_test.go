package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/relay/internal/format"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/store"
)

// homeserver is a sender with a memory like a homeserver's: a repeated transaction of a device makes no second
// event. script, when set, decides about each attempt before it is looked at; what it returns is the answer.
type homeserver struct {
	mu       sync.Mutex
	device   string
	events   map[string][]event // by room
	txns     map[string]string
	attempts []attemptAt
	inRoom   map[string]int // sends under way
	tooMany  bool           // two sends at once in a room
	probeErr error
	findable bool
	made     int
	keys     map[string]string   // the rooms made, by key
	lost     bool                // the answer about the next room, and its invitations
	guests   map[string][]string // invited to the rooms made
	members  map[string]string   // who is not in a room, by room and user: how they stand
	away     error               // what looking at rooms is answered with
	infos    map[string]RoomInfo // what is told of rooms, where it is not all well
	uninvite error               // what inviting is answered with
	unredact error               // what removing is answered with
	unupload error               // …and uploading
	unfind   map[string]error    // …and reading the history, by room
	sealed   map[string]bool     // the rooms that are encrypted
	refuse   func() error        // instead of Prepare, unless it returns nil
	files    []string            // that were uploaded

	script func(out Outgoing, n int) *answer // n counts the attempts of this transaction from 1
	join   func(room string) error
}

type answer struct {
	err   error
	store bool // the event is stored, whatever is answered
	delay time.Duration
}

type event struct{ id, txn, body, kind string }

type attemptAt struct {
	txn, room string
	at        time.Time
}

func newHomeserver() *homeserver {
	return &homeserver{device: "DEV", events: map[string][]event{}, txns: map[string]string{}, inRoom: map[string]int{}, keys: map[string]string{}, guests: map[string][]string{}, findable: true}
}

func (h *homeserver) Send(ctx context.Context, out Outgoing) (string, error) {
	if err := h.MaySend(ctx, out); err != nil {
		return "", err
	}
	h.mu.Lock()
	if out.Device != h.device {
		h.mu.Unlock()
		return "", &SendError{Class: ClassReconcile, Reason: "another device"}
	}
	h.attempts = append(h.attempts, attemptAt{out.TxnID, out.RoomID, time.Now()})
	n := 0
	for _, a := range h.attempts {
		if a.txn == out.TxnID {
			n++
		}
	}
	h.inRoom[out.RoomID]++
	h.tooMany = h.tooMany || h.inRoom[out.RoomID] > 1
	script := h.script
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		h.inRoom[out.RoomID]--
		h.mu.Unlock()
	}()
	a := answer{store: true}
	if script != nil {
		if s := script(out, n); s != nil {
			a = *s
		}
	}
	if a.delay > 0 {
		select {
		case <-time.After(a.delay):
		case <-ctx.Done():
			return "", &SendError{Class: ClassRetry, Reason: "stopped", Err: ctx.Err()}
		}
	}
	var id string
	if a.store {
		id = h.put(out)
	}
	return id, a.err
}

func (h *homeserver) put(out Outgoing) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := h.device + " " + out.RoomID + " " + out.TxnID
	if id := h.txns[key]; id != "" {
		return id
	}
	var c struct{ Body, MsgType string }
	_ = json.Unmarshal(out.Content, &c)
	id := fmt.Sprintf("$%d", len(h.txns)+1)
	h.txns[key] = id
	h.events[out.RoomID] = append(h.events[out.RoomID], event{id, out.TxnID, c.Body, c.MsgType})
	return id
}

func (h *homeserver) Redact(_ context.Context, r Redaction) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unredact != nil {
		return "", h.unredact
	}
	h.events[r.RoomID] = slices.DeleteFunc(h.events[r.RoomID], func(e event) bool { return e.id == r.EventID })
	return "$redaction", nil
}

func (h *homeserver) Device() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.device
}

func (h *homeserver) Probe(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.probeErr
}

// comeBack ends a time in which the homeserver was away.
func (h *homeserver) comeBack() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.probeErr = nil
}

func (h *homeserver) Find(_ context.Context, room, marker string, _ time.Time) (Found, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.unfind[room]; err != nil {
		return Found{}, err
	}
	for _, e := range h.events[room] {
		if e.txn == marker {
			return Found{EventID: e.id}, nil
		}
	}
	return Found{Complete: h.findable}, nil
}

func (h *homeserver) Upload(_ context.Context, _, _ string, data []byte) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.files = append(h.files, string(data))
	return "mxc://hs/file", h.unupload
}

func (h *homeserver) MaySend(_ context.Context, out Outgoing) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sealed[out.RoomID] && out.EventType != matrix.EventEncrypted {
		return &SendError{Class: matrix.ClassEncrypted, Encrypt: true, Reason: "the room is encrypted"}
	}
	return nil
}

// Prepare encrypts nothing, but says for which room and device the event is.
func (h *homeserver) Prepare(_ context.Context, out Outgoing) (Outgoing, error) {
	if h.refuse != nil {
		if err := h.refuse(); err != nil {
			return out, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	out.EventType, out.Encrypted = matrix.EventEncrypted, true
	out.Content = fmt.Appendf(nil, `{"body":"for %s %s"}`, out.RoomID, h.device)
	return out, nil
}

func (h *homeserver) Resolve(_ context.Context, address string) (string, error) {
	if address[0] == '!' {
		return address, nil
	}
	return "!resolved-" + address[1:], nil
}

func (h *homeserver) Join(_ context.Context, room string) error {
	if h.join != nil {
		return h.join(room)
	}
	return nil
}

// Create is matrix.Client's: a room is known by its key, and who is invited is invited last.
func (h *homeserver) Create(_ context.Context, n NewRoom) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := h.keys[n.Key]
	if id == "" {
		h.made++
		id = fmt.Sprintf("!made%d:hs", h.made)
		h.keys[n.Key] = id
		if h.lost {
			h.lost = false
			return "", &SendError{Class: ClassRetry, Reason: "no answer"}
		}
	}
	if h.uninvite != nil {
		return "", h.uninvite
	}
	h.guests[id] = n.Invite
	return id, nil
}

func (h *homeserver) Membership(_ context.Context, room, user string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.away != nil {
		return "", h.away
	}
	if m, ok := h.members[room+" "+user]; ok {
		return m, nil
	}
	return "join", nil
}

func (h *homeserver) Info(_ context.Context, room string) (RoomInfo, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if info, ok := h.infos[room]; ok {
		return info, h.away
	}
	return RoomInfo{RoomID: room, Joined: true, Writable: true}, h.away
}

func (h *homeserver) Joined(context.Context) ([]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string{"!a:hs", "!b:hs"}, slices.Sorted(maps.Values(h.keys))...), nil
}

// bodies returns the bodies of a room's events.
func (h *homeserver) bodies(room string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, e := range h.events[room] {
		all = append(all, e.body)
	}
	return all
}

func (h *homeserver) times(room string) []time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []time.Time
	for _, a := range h.attempts {
		if a.room == room {
			all = append(all, a.at)
		}
	}
	return all
}

// rig is a service with a fake homeserver.
type rig struct {
	*Service
	t      testing.TB
	hs     *homeserver
	shared bool   // other relays may use the database
	path   string // of the database's file, or the DSN of one in PostgreSQL
	o      Options
	admin  Viewer
	stop   func()
}

func newRig(t testing.TB, change ...func(*Options)) *rig {
	t.Helper()
	hs := newHomeserver()
	r := &rig{t: t, hs: hs, path: newDatabase(t), o: Options{
		Sender: hs, Rooms: hs, Format: format.Options{MaxEvents: 1},
		Log: zap.NewNop(), CheckToken: true,
	}}
	for _, c := range change {
		c(&r.o)
	}
	r.open()
	t.Cleanup(func() { r.close() })
	return r
}

// withAdmin gives the administrator a password.
func withAdmin(o *Options) {
	o.Admin = Admin{Name: "admin", Password: "administrator", MatrixID: "@admin:hs"}
}

// open makes the service, as at a start of the program.
func (r *rig) open() {
	r.t.Helper()
	r.o.Metrics = NewMetrics(prometheus.NewRegistry())
	var err error
	if r.o.Store, err = openStore(r.path, r.shared); err != nil {
		r.t.Fatal(err)
	}
	s, err := New(context.Background(), r.o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.Service = s
	admin, there := administrator(s)
	if !there { // most tests need no password, and argon2 takes its time
		admin = viewer(r.row(store.User{Name: "admin", IsAdmin: true, MatrixID: "@admin:hs"}))
	}
	r.admin = admin
	r.stop = func() {}
}

// row stores a user without a password.
func (r *rig) row(u store.User) store.User {
	r.t.Helper()
	u.CreatedAt = 1
	if err := r.store.Update(context.Background(), func(tx *store.Tx) error { return tx.SaveUser(&u) }); err != nil {
		r.t.Fatal(err)
	}
	if err := r.Reload(context.Background()); err != nil {
		r.t.Fatal(err)
	}
	return u
}

func viewer(u store.User) Viewer { return Viewer{UserID: u.ID, Name: u.Name, Admin: u.IsAdmin} }

// administrator returns the first administrator.
func administrator(s *Service) (Viewer, bool) {
	users, _ := s.Users(context.Background(), Viewer{UserID: 1, Admin: true})
	for _, u := range users {
		if u.Admin {
			return Viewer{UserID: u.ID, Name: u.Name, Admin: true}, true
		}
	}
	return Viewer{}, false
}

// run begins to deliver.
func (r *rig) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Run(ctx)
	}()
	r.stop = func() {
		cancel()
		<-done
		r.stop = func() {}
	}
}

func (r *rig) close() {
	if r.Service == nil {
		return
	}
	r.stop()
	if err := r.Close(); err != nil {
		r.t.Error(err)
	}
	r.Service = nil
}

// crash ends the service without its orderly end: what was not committed is lost.
func (r *rig) crash() {
	r.t.Helper()
	r.stop()
	if err := r.store.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.Service = nil
}

func (r *rig) app(name, room string) IssuedToken {
	r.t.Helper()
	a, err := r.CreateApplication(context.Background(), r.admin, ApplicationInput{Name: &name, Room: &room})
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

func (r *rig) send(token, text string) int64 {
	r.t.Helper()
	a, err := r.Accept(context.Background(), AcceptRequest{Token: token, Message: text, Source: "test", NativeScale: true})
	if err != nil {
		r.t.Fatal(err)
	}
	return a.ID
}

func (r *rig) message(id int64) Message {
	r.t.Helper()
	m, err := r.Message(context.Background(), r.admin, id)
	if err != nil {
		r.t.Fatal(err)
	}
	return m
}

// await waits until a message is in a state.
func (r *rig) await(id int64, want State) Message {
	r.t.Helper()
	for range 2000 {
		if m := r.message(id); m.State == want {
			return m
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.t.Fatalf("message %d is %q, want %q", id, r.message(id).State, want)
	return Message{}
}

// exec changes the database while the service is not open, or reads what one statement returns.
func (r *rig) exec(text string, into ...any) {
	r.t.Helper()
	db, err := openDatabase(r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer db.Close()
	if len(into) > 0 {
		err = db.QueryRow(text).Scan(into...)
	} else {
		_, err = db.Exec(text)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// waiting counts what is on its way.
func (r *rig) waiting() int64 { return r.Status(context.Background()).Waiting }

// drained waits until nothing waits any more.
func (r *rig) drained() {
	r.t.Helper()
	var n int
	for range 2000 {
		if r.waiting() == 0 { // an estimate, which may be ahead of what is stored
			if r.exec("SELECT count(*) FROM outbox WHERE final_at = 0", &n); n == 0 {
				return
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.t.Fatalf("%d wait", r.waiting())
}
