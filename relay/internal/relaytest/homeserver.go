package relaytest

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"slipway/relay/internal/matrix"
)

// Homeserver is a scripted homeserver. Like a real one it stores a repeated transaction of a device once. A test must hold Mu,
// as in [Homeserver.Do], while it changes a field of a running relay's homeserver.
type Homeserver struct {
	Mu       sync.Mutex
	DeviceID string
	Strict   bool               // rooms exist only once [Homeserver.Has] or Create made them; Sent keeps what is sent
	Events   map[string][]Event // by room
	Txns     map[string]string  // event ids by device, room and transaction
	Attempts []Attempt
	Files    []string // the uploads
	Made     int      // rooms created
	Guests   map[string][]string
	TooMany  bool // two sends overlapped in one room

	Findable bool                       // Find sees the whole history
	Lost     bool                       // the answer to the next Create, and its invitations, are lost
	Members  map[string]string          // membership by room and user; "join" without an entry
	rights   map[string]matrix.Rights   // by room and user
	Infos    map[string]matrix.RoomInfo // by room
	Sealed   map[string]bool            // encrypted rooms
	Refuse   func() error               // what Prepare answers, unless it returns nil

	// Errors that the methods answer with.
	ProbeErr error
	Away     error // of Info and Membership
	Uninvite error
	Unredact error
	Unupload error
	Unfind   map[string]error // by room

	// Script decides about each attempt; n counts the attempts of the transaction from 1. nil means success.
	Script func(out matrix.Outgoing, n int) *Answer
	OnJoin func(room string) error

	fail   error
	failIn map[string]error
	hold   chan struct{}
	sent   []matrix.Outgoing
	inRoom map[string]int    // sends under way
	keys   map[string]string // rooms made, by key
}

// Answer is the answer to one attempt.
type Answer struct {
	Err   error
	Store bool // the event is stored whatever the answer is
	Delay time.Duration
}

// Fails answers with an error of a class.
func Fails(c matrix.Class) Answer {
	return Answer{Err: &matrix.SendError{Class: c, Reason: "because of " + string(c)}}
}

// Event is an event in a room.
type Event struct{ ID, Txn, Body, Kind string }

// Attempt is a call of Send.
type Attempt struct {
	Txn, Room string
	At        time.Time
}

// NewHomeserver returns a homeserver whose rooms all exist and have the bot in them.
func NewHomeserver() *Homeserver {
	return &Homeserver{
		DeviceID: "DEV", Findable: true,
		Events: map[string][]Event{}, Txns: map[string]string{}, Guests: map[string][]string{}, Members: map[string]string{},
		Infos: map[string]matrix.RoomInfo{}, inRoom: map[string]int{}, keys: map[string]string{}, failIn: map[string]error{},
	}
}

// Fail makes every request fail with err; nil ends that.
func (h *Homeserver) Fail(err error) { h.Do(func() { h.fail = err }) }

// FailIn makes every event for one room fail with err; nil ends that.
func (h *Homeserver) FailIn(roomID string, err error) { h.Do(func() { h.failIn[roomID] = err }) }

func (h *Homeserver) failing() (yes bool) {
	h.Do(func() { yes = h.fail != nil })
	return yes
}

// Hold blocks every send until the returned function is called.
func (h *Homeserver) Hold() (release func()) {
	gate := make(chan struct{})
	h.Do(func() { h.hold = gate })
	return func() {
		h.Do(func() { h.hold = nil })
		close(gate)
	}
}

// Has adds a room.
func (h *Homeserver) Has(info matrix.RoomInfo) { h.Do(func() { h.Infos[info.RoomID] = info }) }

// SetMembership sets a user's membership of a room.
func (h *Homeserver) SetMembership(room, user, membership string) {
	h.Do(func() { h.Members[room+" "+user] = membership })
}

// ComeBack lets probes succeed again.
func (h *Homeserver) ComeBack() { h.Do(func() { h.ProbeErr = nil }) }

// Sent returns the events taken so far.
func (h *Homeserver) Sent() (sent []matrix.Outgoing) {
	h.Do(func() { sent = slices.Clone(h.sent) })
	return sent
}

// Bodies returns the bodies of a room's events.
func (h *Homeserver) Bodies(room string) (all []string) {
	h.Do(func() {
		for _, e := range h.Events[room] {
			all = append(all, e.Body)
		}
	})
	return all
}

// Times returns when sends to a room were attempted.
func (h *Homeserver) Times(room string) (all []time.Time) {
	h.Do(func() {
		for _, a := range h.Attempts {
			if a.Room == room {
				all = append(all, a.At)
			}
		}
	})
	return all
}

// Do calls f with Mu held.
func (h *Homeserver) Do(f func()) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	f()
}

// Send implements delivery.Sender.
func (h *Homeserver) Send(ctx context.Context, out matrix.Outgoing) (string, error) {
	if err := h.maySend(out); err != nil {
		return "", err
	}
	answer, err := h.attempt(out)
	if err != nil {
		return "", err
	}
	defer h.Do(func() { h.inRoom[out.RoomID]-- })
	if err := h.wait(ctx); err != nil {
		return "", err
	}
	a := Answer{Store: true}
	if s := answer(); s != nil {
		a = *s
	}
	if a.Delay > 0 {
		select {
		case <-time.After(a.Delay):
		case <-ctx.Done():
			return "", stopped(ctx)
		}
	}
	h.Do(func() { err = cmp.Or(h.fail, h.failIn[out.RoomID]) })
	if err != nil {
		return "", err
	}
	var id string
	if a.Store {
		id = h.Put(out)
	}
	return id, a.Err
}

// attempt records an attempt and returns the script's answer to it.
func (h *Homeserver) attempt(out matrix.Outgoing) (answer func() *Answer, err error) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	if out.Device != h.DeviceID {
		return nil, &matrix.SendError{Class: matrix.ClassReconcile, Reason: "another device"}
	}
	h.Attempts = append(h.Attempts, Attempt{out.TxnID, out.RoomID, time.Now()})
	n := 0
	for _, a := range h.Attempts {
		if a.Txn == out.TxnID {
			n++
		}
	}
	h.inRoom[out.RoomID]++
	h.TooMany = h.TooMany || h.inRoom[out.RoomID] > 1
	script := h.Script
	return func() *Answer {
		if script == nil {
			return nil
		}
		return script(out, n)
	}, nil
}

// wait blocks while sends are held.
func (h *Homeserver) wait(ctx context.Context) error {
	var hold chan struct{}
	h.Do(func() { hold = h.hold })
	if hold == nil {
		return nil
	}
	select {
	case <-hold:
		return nil
	case <-ctx.Done():
		return stopped(ctx)
	}
}

func stopped(ctx context.Context) error {
	return &matrix.SendError{Class: matrix.ClassRetry, Reason: "stopped", Err: ctx.Err()}
}

// Put stores an event and returns its id.
func (h *Homeserver) Put(out matrix.Outgoing) string {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	key := h.DeviceID + " " + out.RoomID + " " + out.TxnID
	if id := h.Txns[key]; id != "" {
		return id
	}
	var c struct{ Body, MsgType string }
	_ = json.Unmarshal(out.Content, &c)
	id := fmt.Sprintf("$event%d", len(h.Txns)+1)
	h.Txns[key] = id
	h.Events[out.RoomID] = append(h.Events[out.RoomID], Event{id, out.TxnID, c.Body, c.MsgType})
	if h.Strict {
		h.sent = append(h.sent, out)
	}
	return id
}

// Redact implements delivery.Sender.
func (h *Homeserver) Redact(ctx context.Context, r matrix.Redaction) (string, error) {
	if err := h.wait(ctx); err != nil {
		return "", err
	}
	h.Mu.Lock()
	defer h.Mu.Unlock()
	if err := cmp.Or(h.Unredact, h.fail, h.failIn[r.RoomID]); err != nil {
		return "", err
	}
	h.Events[r.RoomID] = slices.DeleteFunc(h.Events[r.RoomID], func(e Event) bool { return e.ID == r.EventID })
	if h.Strict {
		h.sent = append(h.sent, matrix.Outgoing{RoomID: r.RoomID, TxnID: r.TxnID, EventType: "m.room.redaction"})
	}
	return "$redaction", nil
}

// Device implements delivery.Sender.
func (h *Homeserver) Device() (id string) {
	h.Do(func() { id = h.DeviceID })
	return id
}

// Probe implements delivery.Sender.
func (h *Homeserver) Probe(context.Context) (err error) {
	h.Do(func() { err = cmp.Or(h.ProbeErr, h.fail) })
	return err
}

// Find implements delivery.Sender.
func (h *Homeserver) Find(_ context.Context, room, marker string, _ time.Time) (matrix.Found, error) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	if err := h.Unfind[room]; err != nil {
		return matrix.Found{}, err
	}
	for _, e := range h.Events[room] {
		if e.Txn == marker {
			return matrix.Found{EventID: e.ID}, nil
		}
	}
	return matrix.Found{Complete: h.Findable}, nil
}

// Upload implements delivery.Sender.
func (h *Homeserver) Upload(_ context.Context, up matrix.Upload) (matrix.Media, error) {
	if err := h.maySend(matrix.Outgoing{RoomID: up.RoomID}); err != nil && !up.Encrypt {
		return matrix.Media{}, err
	}
	content, err := io.ReadAll(up.Content)
	if err != nil {
		return matrix.Media{}, &matrix.SendError{Class: matrix.ClassRetry, Alone: true, Reason: "the file cannot be read", Err: err}
	}
	h.Mu.Lock()
	defer h.Mu.Unlock()
	m := matrix.Media{URI: "mxc://example.org/file"}
	if up.Encrypt {
		content, m.Keys = []byte("encrypted "+base64.StdEncoding.EncodeToString(content)), `"v":"v2"`
	}
	h.Files = append(h.Files, string(content))
	return m, h.Unupload
}

// maySend refuses events in the clear in a sealed room.
func (h *Homeserver) maySend(out matrix.Outgoing) error {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	if h.Sealed[out.RoomID] && out.EventType != matrix.EventEncrypted && out.EventType != matrix.EventReaction {
		return &matrix.SendError{Class: matrix.ClassEncrypted, Encrypt: true, Reason: "the room is encrypted"}
	}
	return nil
}

// Prepare implements delivery.Encrypter. It encrypts nothing, but names the room and the device that the event is for.
func (h *Homeserver) Prepare(_ context.Context, out matrix.Outgoing) (matrix.Outgoing, error) {
	if h.Refuse != nil {
		if err := h.Refuse(); err != nil {
			return out, err
		}
	}
	h.Mu.Lock()
	defer h.Mu.Unlock()
	out.EventType, out.Encrypted = matrix.EventEncrypted, true
	out.Content = fmt.Appendf(nil, `{"body":"for %s %s"}`, out.RoomID, h.DeviceID)
	return out, nil
}

// Identity is the bot's Matrix ID.
func (h *Homeserver) Identity() string { return "@relay:example.org" }

// Resolve implements delivery.Rooms.
func (h *Homeserver) Resolve(_ context.Context, address string) (string, error) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	if h.fail != nil {
		return "", h.fail
	}
	if address[0] == '!' {
		return address, nil
	}
	for _, r := range h.Infos {
		if r.Alias == address {
			return r.RoomID, nil
		}
	}
	return "!resolved-" + address[1:], nil
}

// Join implements delivery.Rooms.
func (h *Homeserver) Join(_ context.Context, room string) error {
	if h.OnJoin != nil {
		return h.OnJoin(room)
	}
	h.Mu.Lock()
	defer h.Mu.Unlock()
	r, known := h.Infos[room]
	if !known && !h.Strict {
		return nil
	}
	if !r.Invited && !r.Joined {
		return &matrix.SendError{Class: matrix.ClassBlock, Status: 403, Code: "M_FORBIDDEN", Reason: "the bot is not invited"}
	}
	r.Joined = true
	h.Infos[room] = r
	return nil
}

// Create implements delivery.Rooms like matrix.Client: a room is known by its key, and the invitations come last.
func (h *Homeserver) Create(_ context.Context, n matrix.NewRoom) (string, error) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	if h.fail != nil {
		return "", h.fail
	}
	id := h.keys[n.Key]
	if id == "" {
		h.Made++
		id = fmt.Sprintf("!made%d:hs", h.Made)
		h.keys[n.Key] = id
		h.Infos[id] = matrix.RoomInfo{RoomID: id, Name: n.Name, Joined: true, Writable: true}
		if h.Lost {
			h.Lost = false
			return "", &matrix.SendError{Class: matrix.ClassRetry, Reason: "no answer"}
		}
	}
	if h.Uninvite != nil {
		return "", h.Uninvite
	}
	h.Guests[id] = n.Invite
	return id, nil
}

// Info implements delivery.Rooms.
func (h *Homeserver) Info(_ context.Context, room string) (matrix.RoomInfo, error) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	info, known := h.Infos[room]
	if !known && !h.Strict {
		info = matrix.RoomInfo{Joined: true, Writable: true}
	}
	info.RoomID = room
	return info, cmp.Or(h.Away, h.fail)
}

// Standing implements delivery.Rooms. Everybody is in every room that isn't known to be otherwise, and has all rights unless SetRights
// changed them.
func (h *Homeserver) Standing(_ context.Context, room, user string) (matrix.Standing, error) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	_, known := h.Infos[room]
	membership, set := h.Members[room+" "+user]
	if err := cmp.Or(h.Away, h.fail); err != nil || set && membership != "join" || !set && !known && h.Strict {
		return matrix.Standing{}, err
	}
	rights, set := h.rights[room+" "+user]
	if !set {
		rights = matrix.Rights{Write: true, Notify: true}
	}
	return matrix.Standing{Joined: true, Rights: rights}, nil
}

// SetRights sets what a user may do in a room.
func (h *Homeserver) SetRights(room, user string, r matrix.Rights) {
	h.Do(func() {
		if h.rights == nil {
			h.rights = map[string]matrix.Rights{}
		}
		h.rights[room+" "+user] = r
	})
}

// JoinedRooms implements delivery.Rooms.
func (h *Homeserver) JoinedRooms(context.Context) (rooms []matrix.RoomInfo, err error) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(h.Infos)) {
		if h.Infos[id].Joined {
			rooms = append(rooms, h.Infos[id])
		}
	}
	if !h.Strict {
		rooms = append(rooms, matrix.RoomInfo{RoomID: "!a:hs", Joined: true}, matrix.RoomInfo{RoomID: "!b:hs", Joined: true})
	}
	return rooms, h.fail
}
