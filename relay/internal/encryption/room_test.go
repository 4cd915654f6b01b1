//go:build goolm

package encryption

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"

	"slipway/relay/internal/store"
)

const (
	testRoom = "!room:hs"
	bot      = id.UserID("@bot:hs")
	owner    = id.UserID("@owner:hs")
	friend   = id.UserID("@friend:hs")
)

// keyServer is the part of a homeserver that deals with keys, with faults by script.
type keyServer struct {
	mu      sync.Mutex
	devices map[id.UserID]map[id.DeviceID]json.RawMessage
	keys    map[id.UserID]map[string]json.RawMessage // one-time keys
	got     map[id.UserID]int                        // messages to a user's devices
	away    map[id.UserID]bool                       // users whose own homeserver does not answer
	noKeys  bool                                     // nobody has one-time keys
	refuse  bool                                     // messages to devices
	last    map[id.UserID]json.RawMessage            // the last message to a user's device
	queries int                                      // for devices
	data    map[string]json.RawMessage               // the account data of all, by path
	base    *url.URL
	owner   *Device
}

func (s *keyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var in struct {
		DeviceKeys  json.RawMessage                               `json:"device_keys"`
		OneTimeKeys json.RawMessage                               `json:"one_time_keys"`
		Messages    map[id.UserID]map[id.DeviceID]json.RawMessage `json:"messages"`
	}
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &in) // some requests have none
	user := id.UserID(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	answer := map[string]any{}
	status := http.StatusOK
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/keys/upload"):
		var one map[string]json.RawMessage
		if in.DeviceKeys != nil {
			s.devices[user] = map[id.DeviceID]json.RawMessage{"DEV": in.DeviceKeys}
		}
		if json.Unmarshal(in.OneTimeKeys, &one) == nil && one != nil {
			s.keys[user] = one
		}
		answer["one_time_key_counts"] = map[string]int{"signed_curve25519": len(s.keys[user])}
	case strings.HasSuffix(path, "/keys/query"):
		s.queries++
		var asked map[id.UserID]any
		_ = json.Unmarshal(in.DeviceKeys, &asked)
		found := map[id.UserID]any{}
		for u := range asked {
			if !s.away[u] && s.devices[u] != nil {
				found[u] = s.devices[u]
			} else if !s.away[u] {
				found[u] = map[string]any{}
			}
		}
		answer["device_keys"] = found
	case strings.HasSuffix(path, "/keys/claim"):
		var asked map[id.UserID]any
		_ = json.Unmarshal(in.OneTimeKeys, &asked)
		given := map[id.UserID]any{}
		for u := range asked {
			for name, key := range s.keys[u] {
				if !s.noKeys {
					given[u] = map[id.DeviceID]any{"DEV": map[string]any{name: key}}
					delete(s.keys[u], name)
				}
				break
			}
		}
		answer["one_time_keys"] = given
	case strings.Contains(path, "/sendToDevice/") && s.refuse:
		status, answer["errcode"] = http.StatusInternalServerError, "M_UNKNOWN"
	case strings.Contains(path, "/sendToDevice/m.room.encrypted/"):
		for u := range in.Messages {
			s.got[u]++
			s.last[u] = in.Messages[u]["DEV"]
		}
	case r.Method == http.MethodPut && strings.Contains(path, "/account_data/"):
		s.data[path] = body
	case s.data[path] != nil:
		_, _ = w.Write(s.data[path])
		return
	case r.Method == http.MethodGet || strings.Contains(path, "/device_signing/"):
		status, answer["errcode"] = http.StatusNotFound, "M_NOT_FOUND"
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *keyServer) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// open opens a device of a user.
func (s *keyServer) open(t *testing.T, base *url.URL, user id.UserID) *Device {
	t.Helper()
	client := &mautrix.Client{HomeserverURL: base, UserID: user, DeviceID: "DEV", AccessToken: user.String(), Client: http.DefaultClient}
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "relay.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	d, err := Open(t.Context(), Options{Keys: db.Keys(), PickleKey: []byte("a key for tests"), Client: client, Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// newPair is the bot's device, and a homeserver with a device of the owner.
func newPair(t *testing.T) (*keyServer, *Device) {
	t.Helper()
	s := &keyServer{
		devices: map[id.UserID]map[id.DeviceID]json.RawMessage{}, keys: map[id.UserID]map[string]json.RawMessage{},
		got: map[id.UserID]int{}, last: map[id.UserID]json.RawMessage{}, away: map[id.UserID]bool{},
		data: map[string]json.RawMessage{},
	}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	base, err := url.Parse(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	s.base = base
	s.owner = s.open(t, base, owner)
	return s, s.open(t, base, bot)
}

// encrypt encrypts an event for the bot, the owner and others.
func encrypt(t *testing.T, d *Device, others ...id.UserID) error {
	t.Helper()
	members := func(context.Context) ([]id.UserID, error) { return append([]id.UserID{bot, owner}, others...), nil }
	rules := &event.EncryptionEventContent{Algorithm: id.AlgorithmMegolmV1}
	wire, err := d.Encrypt(t.Context(), Room{ID: testRoom, Rules: rules, Members: members}, "m.room.message", json.RawMessage(`{"body":"secret"}`), "")
	if err == nil && (strings.Contains(string(wire), "secret") || !strings.Contains(string(wire), "ciphertext")) {
		err = fmt.Errorf("encrypted is %s", wire)
	}
	return err
}

// later lets the time pass after which what could not be had is tried again.
func later(d *Device) {
	r := d.room(testRoom)
	r.mu.Lock()
	defer r.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	past := time.Now().Add(-time.Second)
	for user := range d.absent {
		d.absent[user] = past
	}
	r.retryAt = past
	if !r.askAt.IsZero() {
		r.askAt = past
	}
}

func wantKeys(t *testing.T, s *keyServer, when string, want int) {
	t.Helper()
	s.change(func() {
		if s.got[owner] != want {
			t.Errorf("%s the owner has got keys %d times, want %d", when, s.got[owner], want)
		}
	})
}

// A device without one-time keys does not hold up a message, and gets the room's key later, also if the first attempt at that fails.
func TestDeviceWithoutOneTimeKeys(t *testing.T) {
	s, d := newPair(t)
	s.change(func() { s.noKeys = true })
	if err := encrypt(t, d); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, s, "without one-time keys", 0)
	s.change(func() { s.noKeys, s.refuse = false, true })
	later(d)
	if err := encrypt(t, d); err == nil {
		t.Fatal("a key that cannot be sent is no error")
	}
	s.change(func() { s.refuse = false })
	for range 2 {
		if err := encrypt(t, d); err != nil {
			t.Fatal(err)
		}
	}
	wantKeys(t, s, "at last", 1)
}

// Messages of devices that the bot does not know leave nothing behind, however many come; those of its rooms' members are taken.
func TestMessagesOfStrangers(t *testing.T) {
	s, d := newPair(t)
	if err := encrypt(t, s.owner); err != nil { // which makes a session with the bot
		t.Fatal(err)
	}
	var message struct {
		Ciphertext map[string]any `json:"ciphertext"`
		SenderKey  string         `json:"sender_key"`
		Algorithm  string         `json:"algorithm"`
	}
	var genuine json.RawMessage
	s.change(func() { genuine = s.last[bot] })
	if err := json.Unmarshal(genuine, &message); err != nil {
		t.Fatal(err)
	}
	take := func(contents ...json.RawMessage) {
		t.Helper()
		answer := &mautrix.RespSync{}
		answer.DeviceOTKCount.SignedCurve25519 = 50
		for _, c := range contents {
			answer.ToDevice.Events = append(answer.ToDevice.Events, &event.Event{Type: event.ToDeviceEncrypted, Sender: owner, Content: event.Content{VeryRaw: c}})
		}
		if err := d.Take(t.Context(), answer, false); err != nil {
			t.Fatal(err)
		}
	}
	var flood []json.RawMessage
	for i := range 1000 {
		message.SenderKey = fmt.Sprintf("%043d", i)
		b, err := json.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		flood = append(flood, b)
	}
	before := 0
	s.change(func() { before = s.queries })
	take(append(flood, genuine)...)
	s.change(func() {
		if s.queries != before || len(d.store.Sessions) != 0 {
			t.Errorf("strangers cost %d requests and leave %d sessions", s.queries-before, len(d.store.Sessions))
		}
	})
	if _, err := d.mach.FetchKeys(t.Context(), []id.UserID{owner}, true); err != nil {
		t.Fatal(err)
	}
	take(append(flood, genuine)...)
	if n := len(d.store.Sessions); n != 1 {
		t.Errorf("%d sessions with devices, want that with the owner's", n)
	}
}

// What nobody could read is not encrypted: it waits for somebody's device.
func TestRoomWhereNobodyCanRead(t *testing.T) {
	s, d := newPair(t)
	var theirs map[id.DeviceID]json.RawMessage
	s.change(func() { theirs, s.devices[owner] = s.devices[owner], nil })
	for range 2 {
		if err := encrypt(t, d); !errors.Is(err, ErrNoReaders) {
			t.Fatalf("without a device of the owner's: %v", err)
		}
	}
	s.change(func() { s.devices[owner] = theirs })
	answer := &mautrix.RespSync{}
	answer.DeviceLists.Changed = []id.UserID{owner}
	answer.DeviceOTKCount.SignedCurve25519 = 50
	if err := d.Take(t.Context(), answer, false); err != nil {
		t.Fatal(err)
	}
	if err := encrypt(t, d); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, s, "once there is a device", 1)
}

// A member whose homeserver does not answer holds up no message for others, and gets the room's key once it does.
func TestMemberOfHomeserverThatIsAway(t *testing.T) {
	s, d := newPair(t)
	s.open(t, s.base, friend)
	s.change(func() { s.away[owner] = true })
	if err := encrypt(t, d, friend); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, s, "while away", 0)
	s.change(func() { s.away[owner] = false })
	if err := encrypt(t, d, friend); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, s, "at once", 0)
	later(d)
	for range 2 {
		if err := encrypt(t, d, friend); err != nil {
			t.Fatal(err)
		}
	}
	wantKeys(t, s, "later", 1)
}

// Where the only member's homeserver does not answer nobody could read the message, so it waits.
func TestRoomWhoseOnlyReaderIsAway(t *testing.T) {
	s, d := newPair(t)
	s.change(func() { s.away[owner] = true })
	for range 2 {
		if err := encrypt(t, d); !errors.Is(err, ErrReadersAway) {
			t.Fatalf("while away: %v", err)
		}
	}
	s.change(func() { s.away[owner] = false })
	later(d)
	if err := encrypt(t, d); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, s, "later", 1)
}
