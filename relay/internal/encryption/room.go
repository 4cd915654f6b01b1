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
	shareWithin = 30 * time.Second // a share that takes longer is tried again with the next attempt
	askAgain    = 5 * time.Minute  // for devices that could not be reached
	counterType = "io.slipway.relay.sessions"
)

// room is an encrypted room.
type room struct {
	id      id.RoomID
	rules   atomic.Pointer[event.EncryptionEventContent]
	stale   atomic.Bool // who reads along may have changed
	unknown atomic.Bool // …and the members must be asked for

	mu      sync.Mutex // held while an event is encrypted
	members []id.UserID
	readers map[crypto.UserDevice]id.IdentityKey // whom the session was made for
	missing map[crypto.UserDevice]bool           // those of them that could not be given it
	retryAt time.Time                            // when those are tried again
	askAt   time.Time                            // when members whose homeserver did not answer are asked for again, zero without any
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

// Encrypt encrypts an event for all devices of those who are in a room, and returns the content of an m.room.encrypted. marked
// is JSON of fields that stay readable, without braces. Should a crash lose the result, nothing is lost but a place in the session.
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
	kind := event.Type{Type: eventType, Class: event.MessageEventType}
	encrypted, err := d.mach.EncryptMegolmEvent(ctx, r.id, kind, content)
	if crypto.IsShareError(err) { // it has expired since
		r.stale.Store(true)
		if err = d.share(ctx, r, in.Members); err == nil {
			encrypted, err = d.mach.EncryptMegolmEvent(ctx, r.id, kind, content)
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

func (d *Device) broken() error { return d.store.broken() }

// share makes sure that everybody who is in the room now, and nobody else, has the session.
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
		session.Shared = false // so that those who are missing are tried again
	}
	if err := d.count(ctx); err != nil {
		return err
	}
	d.own.RLock()
	defer d.own.RUnlock()
	if err := d.mach.ShareGroupSession(ctx, r.id, r.members); err != nil {
		r.readers = nil // the session counts as given to some that never got it: the next attempt begins another one
		return err
	}
	if err := d.store.flush(ctx); err != nil {
		return err
	}
	return d.noteMissing(ctx, r)
}

// noteMissing keeps in mind which devices could not be given the session: they have no one-time keys left, for example.
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

// fetch asks for the devices of those users whose devices may have changed.
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

// askAgainAt returns when to ask again for the first of those users whose homeserver did not answer, zero without any.
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

// fetched notes that a user's devices are known. Of one whose homeserver does not answer those that were known before count.
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
	if err == nil && known == nil { // else the library asks again for each message
		err = d.store.PutDevices(ctx, user, map[id.DeviceID]*id.Device{})
	}
	return err
}

// readers are the devices of users, without the bot's own one.
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

// othersIn says whether somebody else than the bot is among the readers.
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

// count notes, here and at the homeserver, that the sessions with other devices are about to move on. By that a database
// restored from a backup is noticed.
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

// noticeRestore begins new sessions with all devices if those in the database are older than what was sent: a session that goes
// back makes messages that nobody can read, or that others can.
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
