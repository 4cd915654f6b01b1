//go:build goolm

package encryption

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/zap"
	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/crypto"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
)

// Device is the bot's device in encrypted rooms. It is safe for concurrent use.
type Device struct {
	o     Options
	log   *zap.Logger
	store *keyStore
	mach  *crypto.OlmMachine

	own sync.RWMutex // held for writing while the bot's own entries in the library may change

	mu       sync.Mutex
	rooms    map[id.RoomID]*room
	fresh    map[id.UserID]bool      // users with current devices
	changes  map[id.UserID]int       // number of changes of a user's devices
	absent   map[id.UserID]time.Time // users whose homeserver did not answer, and when to ask again
	counter  int64
	identity Identity
}

// Open loads or creates the device's keys and uploads them to the homeserver.
func Open(ctx context.Context, o Options) (*Device, error) {
	keys, err := load(ctx, o.Keys, string(o.Client.DeviceID), o.PickleKey)
	if err != nil {
		return nil, err
	}
	d := &Device{
		o: o, log: o.Log, store: keys,
		rooms: map[id.RoomID]*room{}, fresh: map[id.UserID]bool{}, changes: map[id.UserID]int{}, absent: map[id.UserID]time.Time{},
	}
	next := *o.Client.Client
	if next.Transport == nil {
		next.Transport = http.DefaultTransport
	}
	next.Transport = &storedFirst{next: next.Transport, store: keys}
	o.Client.Client = &next
	quiet := zerolog.Nop() // the library logs whole events
	d.mach = crypto.NewOlmMachine(o.Client, &quiet, keys, states{d})
	d.mach.DisableDeviceChangeKeyRotation = true // see room.recipients
	d.mach.DisableSharedGroupSessionTracking = true
	d.mach.DontStoreOutboundKeys = true
	if err := d.mach.Load(ctx); err != nil {
		return nil, err
	}
	if err := d.publish(ctx); err != nil {
		return nil, err
	}
	if err := d.noticeRestore(ctx); err != nil {
		return nil, err
	}
	d.assureIdentity(ctx)
	return d, keys.flush(ctx)
}

// Close stops the device's background work.
func (d *Device) Close() { d.mach.Destroy() }

// Broken returns why the device must be opened again, or nil.
func (d *Device) Broken() error { return d.store.broken() }

// storedFirst flushes the store before each request, because others may depend on what a request sends.
type storedFirst struct {
	next  http.RoundTripper
	store *keyStore
}

// RoundTrip implements [http.RoundTripper].
func (t *storedFirst) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.store.flush(r.Context()); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	return t.next.RoundTrip(r)
}

// publish ensures that the homeserver has the keys of the device.
func (d *Device) publish(ctx context.Context) error {
	me, device := d.o.Client.UserID, d.o.Client.DeviceID
	answer, err := d.o.Client.QueryKeys(ctx, &mautrix.ReqQueryKeys{DeviceKeys: mautrix.DeviceKeysRequest{me: {device}}})
	if err != nil {
		return fmt.Errorf("ask for the device's keys: %w", err)
	}
	account := d.mach.GetAccount()
	there := answer.DeviceKeys[me][device]
	switch known := there.Keys.GetEd25519(device); {
	case known == account.SigningKey():
		account.Shared = true // the answer to their upload may have been lost
		return d.store.PutAccount(ctx, account)
	case known != "":
		return ErrOtherKeys
	}
	if account.Shared {
		d.log.Warn("the homeserver has lost the keys of the bot's device: they are uploaded again", zap.String("device", device.String()))
		account.Shared = false
		account.Internal.MarkKeysAsPublished() // including the one-time keys
	}
	if err := d.store.PutAccount(ctx, account); err != nil {
		return err
	}
	if err := d.upload(ctx, 0); err != nil {
		return fmt.Errorf("upload the device's keys: %w", err)
	}
	return d.o.Keys.ForgetCrypto(ctx, device.String())
}

// upload uploads the device's keys, and one-time keys up to half of the account's limit.
func (d *Device) upload(ctx context.Context, there int) error {
	err := d.mach.ShareKeys(ctx, there)
	var refused mautrix.HTTPError
	if errors.As(err, &refused) && refused.IsStatus(http.StatusBadRequest) && strings.Contains(refused.ResponseBody, "already exists") {
		// A restored database creates one-time keys under names that were used before; the next attempt uses others.
		d.mach.GetAccount().Internal.MarkKeysAsPublished()
		return errors.Join(d.store.PutAccount(ctx, d.mach.GetAccount()), err)
	}
	return err
}

// Take handles the device's part of a sync response. first reports that nothing was received before, so anything may have
// changed. Take stores what it learns.
func (d *Device) Take(ctx context.Context, answer *mautrix.RespSync, first bool) error {
	me := d.o.Client.UserID
	own := false
	d.mu.Lock()
	if first {
		clear(d.fresh)
	}
	for _, user := range answer.DeviceLists.Changed {
		delete(d.fresh, user)
		delete(d.absent, user)
		d.changes[user]++
		own = own || user == me
	}
	for _, r := range d.rooms {
		if first || len(answer.DeviceLists.Changed) > 0 {
			r.stale.Store(true)
		}
	}
	d.mu.Unlock()
	d.takeMessages(ctx, answer.ToDevice.Events, own)
	if count := answer.DeviceOTKCount.SignedCurve25519; count < int(d.mach.GetAccount().Internal.MaxNumberOfOneTimeKeys()/2) {
		if err := d.upload(ctx, count); err != nil {
			d.log.Warn("cannot upload one-time keys for now", zap.Error(err))
		}
	}
	return d.store.flush(ctx)
}

// takeMessages handles to-device messages of devices in the bot's rooms; strangers must not fill memory. Key requests are never
// answered: each reader got the key with the message.
func (d *Device) takeMessages(ctx context.Context, events []*event.Event, own bool) {
	if len(events) == 0 && !own {
		return
	}
	d.own.Lock()
	defer d.own.Unlock()
	for _, e := range events {
		e.Type.Class = event.ToDeviceEventType
		if e.Type != event.ToDeviceEncrypted || e.Content.ParseRaw(e.Type) != nil {
			continue
		}
		from, err := d.store.FindDeviceByKey(ctx, e.Sender, e.Content.AsEncrypted().SenderKey)
		if err != nil || from == nil {
			continue
		}
		d.mach.HandleToDeviceEvent(ctx, e)
	}
	if own {
		d.assureIdentity(ctx)
	}
}

// MembersChanged reports that a room's members or the visibility of its history changed.
func (d *Device) MembersChanged(roomID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.rooms[id.RoomID(roomID)]; r != nil {
		r.unknown.Store(true)
		r.stale.Store(true)
	}
}

// states is the room state that mautrix asks for.
type states struct{ d *Device }

// IsEncrypted implements [crypto.StateStore].
func (s states) IsEncrypted(context.Context, id.RoomID) (bool, error) { return true, nil }

// GetEncryptionEvent implements [crypto.StateStore].
func (s states) GetEncryptionEvent(_ context.Context, roomID id.RoomID) (*event.EncryptionEventContent, error) {
	return s.d.room(roomID).rules.Load(), nil
}

// GetHistoryVisibility implements [crypto.StateStore].
func (s states) GetHistoryVisibility(context.Context, id.RoomID) (*event.HistoryVisibilityEventContent, error) {
	return nil, nil
}

// FindSharedRooms implements [crypto.StateStore].
func (s states) FindSharedRooms(context.Context, id.UserID) ([]id.RoomID, error) { return nil, nil }
