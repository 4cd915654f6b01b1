//go:build goolm

package servertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/crypto"
	"maunium.net/go/mautrix/crypto/attachment"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
)

// Reader is a device of a person.
type Reader struct {
	Client  *mautrix.Client
	Machine *crypto.OlmMachine

	mu     sync.Mutex
	seen   map[id.EventID]bool
	trust  map[id.EventID]id.TrustState
	events []*event.Event
	closed []*event.Event // without a key yet
	since  string
}

// NewReader logs a person in with a new device, which syncs until the test ends.
func NewReader(t testing.TB, homeserver, user, password string) *Reader {
	t.Helper()
	client, err := mautrix.NewClient(homeserver, "", "")
	if err != nil {
		t.Fatal(err)
	}
	client.Log = zerolog.Nop()
	client.StateStore = nil
	ctx, cancel := context.WithCancel(context.Background())
	_, err = client.Login(ctx, &mautrix.ReqLogin{
		Type: mautrix.AuthTypePassword, Password: password, StoreCredentials: true,
		Identifier: mautrix.UserIdentifier{Type: mautrix.IdentifierTypeUser, User: user},
	})
	if err != nil {
		t.Fatal(err)
	}
	log := zerolog.Nop()
	states, ok := mautrix.NewMemoryStateStore().(crypto.StateStore)
	if !ok {
		t.Fatal("the library's state store does not suit its encryption")
	}
	r := &Reader{Client: client, seen: map[id.EventID]bool{}, trust: map[id.EventID]id.TrustState{}}
	r.Machine = crypto.NewOlmMachine(client, &log, crypto.NewMemoryStore(nil), states)
	if err := r.Machine.Load(ctx); err != nil {
		t.Fatal(err)
	}
	if err := r.Machine.ShareKeys(ctx, 0); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if r.sync(ctx) != nil {
				time.Sleep(50 * time.Millisecond)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

// allEvents is a filter that leaves out nothing between two answers of sync.
const allEvents = `{"room":{"timeline":{"limit":10000}}}`

func (r *Reader) sync(ctx context.Context) error {
	answer, err := r.Client.SyncRequest(ctx, 1000, r.since, allEvents, false, event.PresenceOffline)
	if err != nil {
		return err
	}
	r.Machine.ProcessSyncResponse(ctx, answer, r.since)
	r.mu.Lock()
	defer r.mu.Unlock()
	for roomID, joined := range answer.Rooms.Join {
		for _, e := range joined.Timeline.Events {
			if e.RoomID = roomID; !r.seen[e.ID] {
				r.seen[e.ID] = true
				r.closed = append(r.closed, e)
			}
		}
	}
	r.closed = slices.DeleteFunc(r.closed, func(e *event.Event) bool { return r.read(ctx, e) })
	r.since = answer.NextBatch
	return nil
}

// read stores an event and reports whether its key was known.
func (r *Reader) read(ctx context.Context, e *event.Event) bool {
	e.Type.Class = event.MessageEventType
	if e.StateKey != nil {
		return true
	}
	if e.Type.Type == "m.room.encrypted" && e.Unsigned.RedactedBecause == nil {
		_ = e.Content.ParseRaw(event.EventEncrypted)
		plain, err := r.Machine.DecryptMegolmEvent(ctx, e)
		if err != nil {
			return false
		}
		plain.ID = e.ID
		r.trust[e.ID] = plain.Mautrix.TrustState
		e = plain
	}
	r.events = append(r.events, e)
	return true
}

// Event is an event that was read.
type Event struct {
	ID      string
	Type    string
	Content map[string]any
	Trust   id.TrustState // of the encrypting device, when the event was read
}

// Events returns the readable events of a room, in order.
func (r *Reader) Events(room string) (all []Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.RoomID.String() == room {
			all = append(all, Event{ID: e.ID.String(), Type: e.Type.Type, Content: e.Content.Raw, Trust: r.trust[e.ID]})
		}
	}
	return all
}

// Bodies returns the texts of the readable messages of a room.
func (r *Reader) Bodies(room string) (all []string) {
	for _, e := range r.Events(room) {
		if body, ok := e.Content["body"].(string); ok && e.Type == "m.room.message" {
			all = append(all, body)
		}
	}
	return all
}

// Unread counts the events of a room that could not be decrypted.
func (r *Reader) Unread(room string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.closed {
		if e.RoomID.String() == room {
			n++
		}
	}
	return n
}

// Join joins a room.
func (r *Reader) Join(ctx context.Context, room string) error {
	_, err := r.Client.JoinRoomByID(ctx, id.RoomID(room))
	return err
}

// Verify signs another user's identity, as a person does after comparing emoji. It creates the person's own identity first.
func (r *Reader) Verify(ctx context.Context, password string, user id.UserID) error {
	if _, _, err := r.Machine.GenerateAndUploadCrossSigningKeysWithPassword(ctx, password, ""); err != nil {
		return err
	}
	if err := r.Machine.SignOwnDevice(ctx, r.Machine.OwnIdentity()); err != nil {
		return err
	}
	keys, err := r.Machine.GetCrossSigningPublicKeys(ctx, user)
	if err != nil {
		return err
	}
	if keys == nil {
		return fmt.Errorf("%s has no identity", user)
	}
	return r.Machine.SignUser(ctx, user, keys.MasterKey)
}

// File downloads and decrypts the file of an event.
func (r *Reader) File(ctx context.Context, e Event) ([]byte, error) {
	b, err := json.Marshal(e.Content["file"])
	if err != nil {
		return nil, err
	}
	var file struct {
		attachment.EncryptedFile
		URL id.ContentURIString `json:"url"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, err
	}
	uri, err := file.URL.Parse()
	if err != nil {
		return nil, fmt.Errorf("the file's address %q: %w", file.URL, err)
	}
	answer, err := r.Client.Download(ctx, uri)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the file is answered with %s", answer.Status)
	}
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	return data, file.DecryptInPlace(data)
}
