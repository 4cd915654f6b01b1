//go:build goolm

package encryption

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"maunium.net/go/mautrix/crypto"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
)

const (
	shareWithin = 30 * time.Second // a slower share is repeated with the next attempt
	askAgain    = 5 * time.Minute  // for devices that could not be reached
	counterType = "io.slipway.relay.sessions"
)

// room is an encrypted room.
type room struct {
	id      id.RoomID
	rules   atomic.Pointer[event.EncryptionEventContent]
	stale   atomic.Bool // the readers may have changed
	unknown atomic.Bool // and the members must be queried

	mu      sync.Mutex // held during Encrypt
	members []id.UserID
	readers map[crypto.UserDevice]id.IdentityKey // devices that the session is for
	missing map[crypto.UserDevice]bool           // those of them without the session
	retryAt time.Time                            // when to share with those again
	askAt   time.Time                            // when to query members whose homeserver did not answer; zero if there are none
}

func (d *Device) room(roomID id.RoomID) *room {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.rooms[roomID]
	if r == nil {
		r = &room{id: roomID}
		r.stale.Store(true)
		r.unknown.Store(true)
		d.rooms[roomID] = r
	}
	return r
}

// Encrypt encrypts an event for all devices of a room's readers and returns the content of an m.room.encrypted. marked are
// fields that stay readable, as JSON without braces. Losing the result in a crash skips one index of the session and nothing
// else.
func (d *Device) Encrypt(ctx context.Context, in Room, eventType string, content json.RawMessage, marked string) ([]byte, error) {
	r := d.room(id.RoomID(in.ID))
	r.rules.Store(in.Rules)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := d.broken(); err != nil {
		return nil, err
	}
	if err := d.share(ctx, r, in.Members); err != nil {
		return nil, err
	}
	encrypted, err := d.encrypt(ctx, r.id, eventType, content)
	if crypto.IsShareError(err) { // it expired meanwhile
		r.stale.Store(true)
		if err = d.share(ctx, r, in.Members); err == nil {
			encrypted, err = d.encrypt(ctx, r.id, eventType, content)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	wire, err := json.Marshal(encrypted)
	if err == nil && marked != "" {
		wire = append(append(append(wire[:len(wire)-1], ','), marked...), '}')
	}
	return wire, err
}

// encrypt is crypto.OlmMachine.EncryptMegolmEvent without its escapes: encoding/json writes each of < > & in six bytes, which
// makes an event several times as large as its content.
func (d *Device) encrypt(ctx context.Context, roomID id.RoomID, eventType string, content json.RawMessage) (*event.EncryptedEventContent, error) {
	session, err := d.store.GetOutboundGroupSession(ctx, roomID)
	switch {
	case err != nil:
		return nil, err
	case session == nil:
		return nil, crypto.ErrNoGroupSession
	}
	head, err := json.Marshal(struct {
		RoomID id.RoomID `json:"room_id"`
		Type   string    `json:"type"`
	}{roomID, eventType})
	if err != nil {
		return nil, err
	}
	plain := slices.Concat(head[:len(head)-1], []byte(`,"content":`), content, []byte("}"))
	ciphertext, err := session.Encrypt(plain)
	if err != nil {
		return nil, err
	}
	if err := d.store.UpdateOutboundGroupSession(ctx, session); err != nil {
		return nil, err
	}
	var clear struct {
		RelatesTo *event.RelatesTo `json:"m.relates_to"` // homeservers read relations
	}
	if err := json.Unmarshal(content, &clear); err != nil {
		return nil, err
	}
	return &event.EncryptedEventContent{
		Algorithm: id.AlgorithmMegolmV1, SessionID: session.ID(), MegolmCiphertext: ciphertext, RelatesTo: clear.RelatesTo,
		SenderKey: d.mach.OwnIdentity().IdentityKey, DeviceID: d.o.Client.DeviceID, //nolint:staticcheck // for clients before Matrix 1.3
	}, nil
}

func (d *Device) broken() error { return d.store.broken() }

// share ensures that the current readers, and only they, have the session.
func (d *Device) share(ctx context.Context, r *room, members func(context.Context) ([]id.UserID, error)) error {
	session, err := d.store.GetOutboundGroupSession(ctx, r.id)
	if err != nil {
		return err
	}
	again := len(r.missing) > 0 && time.Now().After(r.retryAt) || !r.askAt.IsZero() && time.Now().After(r.askAt)
	stale := r.stale.Swap(false)
	if session != nil && session.Shared && !session.Expired() && !stale && !again {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, shareWithin)
	defer cancel()
	if err := d.shareNow(ctx, r, session, members); err != nil {
		r.stale.Store(true)
		return err
	}
	return nil
}

func (d *Device) shareNow(ctx context.Context, r *room, session *crypto.OutboundGroupSession, members func(context.Context) ([]id.UserID, error)) error {
	if r.unknown.Swap(false) {
		all, err := members(ctx)
		if err != nil {
			r.unknown.Store(true)
			return err
		}
		r.members = all
	}
	if err := d.fetch(ctx, r.members); err != nil {
		return err
	}
	r.askAt = d.askAgainAt(r.members)
	readers, err := d.readers(ctx, r.members)
	if err != nil {
		return err
	}
	switch {
	case d.othersIn(readers):
	case r.askAt.IsZero():
		return ErrNoReaders
	default:
		return ErrReadersAway
	}
	if session == nil || session.Expired() || !sameReaders(r.readers, readers) {
		if err := d.store.RemoveOutboundGroupSession(ctx, r.id); err != nil {
			return err
		}
		r.readers, r.missing, session = readers, nil, nil
	} else if len(r.missing) == 0 || time.Now().Before(r.retryAt) {
		return nil
	}
	if session != nil {
		session.Shared = false // shares with the missing devices
	}
	if err := d.count(ctx); err != nil {
		return err
	}
	d.own.RLock()
	defer d.own.RUnlock()
	if err := d.mach.ShareGroupSession(ctx, r.id, r.members); err != nil {
		r.readers = nil // some may count as having the session that never got it: the next attempt starts a new one
		return err
	}
	if err := d.store.flush(ctx); err != nil {
		return err
	}
	return d.noteMissing(ctx, r)
}

// noteMissing records the devices that did not get the session, for lack of one-time keys for example.
func (d *Device) noteMissing(ctx context.Context, r *room) error {
	session, err := d.store.GetOutboundGroupSession(ctx, r.id)
	if err != nil || session == nil {
		return err
	}
	r.missing, r.retryAt = map[crypto.UserDevice]bool{}, time.Now().Add(askAgain)
	for device := range r.readers {
		if session.Users[device] == crypto.OGSNotShared {
			r.missing[device] = true
		}
	}
	if len(r.missing) > 0 {
		d.log.Warn("some devices cannot be given the keys of a room for now; they are tried again", zap.String("room", r.id.String()), zap.Int("devices", len(r.missing)))
	}
	return nil
}

// fetch queries the devices of users whose devices may have changed.
func (d *Device) fetch(ctx context.Context, users []id.UserID) error {
	d.mu.Lock()
	var ask []id.UserID
	before := map[id.UserID]int{}
	for _, user := range users {
		if !d.fresh[user] && time.Now().After(d.absent[user]) && user != d.o.Client.UserID {
			ask = append(ask, user)
			before[user] = d.changes[user]
		}
	}
	d.mu.Unlock()
	for part := range slices.Chunk(ask, 250) {
		found, err := d.mach.FetchKeys(ctx, slices.Clone(part), true)
		if err != nil {
			return err
		}
		for _, user := range part {
			_, there := found[user]
			if err := d.fetched(ctx, user, there, before[user]); err != nil {
				return err
			}
		}
	}
	return nil
}

// askAgainAt returns when to query the first of the users whose homeserver did not answer; zero if there are none.
func (d *Device) askAgainAt(users []id.UserID) (first time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, user := range users {
		if at, absent := d.absent[user]; absent && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// fetched records that a user's devices are known. If the user's homeserver did not answer, the devices known before remain.
func (d *Device) fetched(ctx context.Context, user id.UserID, there bool, change int) error {
	d.mu.Lock()
	if !there {
		d.absent[user] = time.Now().Add(askAgain)
	} else {
		delete(d.absent, user)
		d.fresh[user] = d.changes[user] == change
	}
	d.mu.Unlock()
	if there {
		return nil
	}
	known, err := d.store.GetDevices(ctx, user)
	if err == nil && known == nil { // else the library queries again for each message
		err = d.store.PutDevices(ctx, user, map[id.DeviceID]*id.Device{})
	}
	return err
}

// readers returns the devices of users except the bot's own.
func (d *Device) readers(ctx context.Context, users []id.UserID) (map[crypto.UserDevice]id.IdentityKey, error) {
	all := map[crypto.UserDevice]id.IdentityKey{}
	for _, user := range users {
		devices, err := d.store.GetDevices(ctx, user)
		if err != nil {
			return nil, err
		}
		for _, device := range devices {
			if user == d.o.Client.UserID && device.DeviceID == d.o.Client.DeviceID {
				continue
			}
			all[crypto.UserDevice{UserID: user, DeviceID: device.DeviceID}] = device.IdentityKey
		}
	}
	return all, nil
}

// othersIn reports whether anybody besides the bot is among the readers.
func (d *Device) othersIn(readers map[crypto.UserDevice]id.IdentityKey) bool {
	for device := range readers {
		if device.UserID != d.o.Client.UserID {
			return true
		}
	}
	return false
}

func sameReaders(a, b map[crypto.UserDevice]id.IdentityKey) bool {
	if len(a) != len(b) || a == nil {
		return false
	}
	for device, key := range a {
		if b[device] != key {
			return false
		}
	}
	return true
}

type counted struct {
	Device string `json:"device"`
	Count  int64  `json:"count"`
}

// count records, here and at the homeserver, that the sessions with other devices advance. noticeRestore compares the two.
func (d *Device) count(ctx context.Context) error {
	d.mu.Lock()
	d.counter++
	n := d.counter
	d.store.put(kindCounter, "", []byte(strconv.FormatInt(n, 10)))
	d.mu.Unlock()
	if err := d.store.flush(ctx); err != nil {
		return err
	}
	return d.o.Client.SetAccountData(ctx, counterType, counted{Device: d.store.device, Count: n})
}

// noticeRestore starts new sessions with all devices if the database is older than what was sent, as after a restore: a reused
// index makes messages unreadable, or readable to others.
func (d *Device) noticeRestore(ctx context.Context) error {
	d.counter, _ = strconv.ParseInt(d.store.Secrets[kindCounter], 10, 64) // none yet
	var there counted
	if err := d.o.Client.GetAccountData(ctx, counterType, &there); err != nil && !isNotFound(err) {
		return fmt.Errorf("ask how far the sessions are: %w", err)
	}
	if there.Device != d.store.device || there.Count <= d.counter {
		return nil
	}
	d.log.Warn("the database is older than what the relay has sent, as after a restore: encryption begins with new sessions",
		zap.Int64("database", d.counter), zap.Int64("sent", there.Count))
	d.counter = there.Count
	return d.store.forgetSessions(ctx)
}
