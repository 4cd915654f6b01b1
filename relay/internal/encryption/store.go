//go:build goolm

package encryption

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"maunium.net/go/mautrix/crypto"
	"maunium.net/go/mautrix/crypto/goolm/libolmpickle"
	"maunium.net/go/mautrix/crypto/olm"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"

	"slipway/relay/internal/store"
)

// Kinds of rows.
const (
	kindAccount = "account" // the identity of the device and its one-time keys
	kindOlm     = "olm"     // a session with a device, by the device's key and the session's id
	kindDevices = "devices" // the devices of a user
	kindSecret  = "secret"
	kindCounter = "counter" // number of times that sessions with devices advanced
)

// keyStore is mautrix's store, in memory. flush writes what must survive the process in one transaction; the caller must flush
// before anything leaves that depends on it. Room sessions are never stored: each process starts new ones, so that none can go
// back.
type keyStore struct {
	*crypto.MemoryStore
	db     *store.Keys
	device string
	key    []byte

	mu      sync.Mutex // guards the fields below, and those that the library's store leaves unguarded
	changed map[[2]string][]byte
	failed  error // of a flush: memory is ahead of the database since

	flushing sync.Mutex
}

type storedAccount struct {
	Pickle []byte `json:"pickle"`
	Shared bool   `json:"shared"`
}

type storedSession struct {
	SenderKey id.SenderKey `json:"sender_key"`
	Pickle    []byte       `json:"pickle"`
	Created   time.Time    `json:"created"`
	Encrypted time.Time    `json:"encrypted"`
	Decrypted time.Time    `json:"decrypted"`
}

// load loads a device's keys.
func load(ctx context.Context, db *store.Keys, device string, key []byte) (*keyStore, error) {
	s := &keyStore{MemoryStore: crypto.NewMemoryStore(nil), db: db, device: device, key: key, changed: map[[2]string][]byte{}}
	rows, err := db.Crypto(ctx, device)
	if err != nil {
		return nil, fmt.Errorf("read the device's keys: %w", err)
	}
	for _, r := range rows {
		if err := s.take(r); err != nil {
			return nil, fmt.Errorf("%w (%s: %w)", ErrWrongKey, r.Kind, err)
		}
	}
	if len(rows) > 0 {
		return s, nil
	}
	return s, s.inherit(ctx)
}

// inherit gives a new device the identity of the device before it, if the pickle key decrypts it.
func (s *keyStore) inherit(ctx context.Context) error {
	rows, err := s.db.CryptoOfOthers(ctx, s.device, kindSecret)
	if err != nil {
		return fmt.Errorf("read the identity of the device before: %w", err)
	}
	for _, r := range rows {
		if s.take(r) == nil {
			s.put(r.Kind, r.Key, r.Value)
		}
	}
	return nil
}

func (s *keyStore) take(r store.CryptoRow) error {
	switch r.Kind {
	case kindAccount:
		var a storedAccount
		account := &crypto.OlmAccount{Internal: olm.NewBlankAccount()}
		if err := errors.Join(json.Unmarshal(r.Value, &a), account.Internal.Unpickle(a.Pickle, s.key)); err != nil {
			return err
		}
		account.Shared, s.Account = a.Shared, account
	case kindOlm:
		var o storedSession
		session := &crypto.OlmSession{Internal: olm.NewBlankSession()}
		if err := json.Unmarshal(r.Value, &o); err != nil {
			return err
		}
		if err := session.Internal.Unpickle(o.Pickle, s.key); err != nil {
			return err
		}
		session.CreationTime, session.LastEncryptedTime, session.LastDecryptedTime = o.Created, o.Encrypted, o.Decrypted
		s.Sessions[o.SenderKey] = append(s.Sessions[o.SenderKey], session)
	case kindDevices:
		devices := map[id.DeviceID]*id.Device{}
		if err := json.Unmarshal(r.Value, &devices); err != nil {
			return err
		}
		s.Devices[id.UserID(r.Key)] = devices
	case kindSecret:
		value, err := libolmpickle.Unpickle(s.key, slices.Clone(r.Value))
		if err != nil {
			return err
		}
		s.Secrets[id.Secret(r.Key)] = string(value)
	case kindCounter:
		s.Secrets[kindCounter] = string(r.Value)
	}
	return nil
}

// flush writes the changes. After a failure nothing more is written or sent until the device is opened again.
func (s *keyStore) flush(ctx context.Context) error {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	s.mu.Lock()
	changed, failed, none := s.changed, s.failed, len(s.changed) == 0
	if failed == nil && !none {
		s.changed = map[[2]string][]byte{}
	}
	s.mu.Unlock()
	if failed != nil || none {
		return failed
	}
	rows := make([]store.CryptoRow, 0, len(changed))
	for k, value := range changed {
		rows = append(rows, store.CryptoRow{Kind: k[0], Key: k[1], Value: value})
	}
	slices.SortFunc(rows, func(a, b store.CryptoRow) int { // a fixed order avoids deadlocks between relays
		if a.Kind != b.Kind {
			return slices.Compare([]byte(a.Kind), []byte(b.Kind))
		}
		return slices.Compare([]byte(a.Key), []byte(b.Key))
	})
	if err := s.db.SaveCrypto(context.WithoutCancel(ctx), s.device, rows); err != nil {
		s.mu.Lock()
		s.failed = fmt.Errorf("store the device's keys: %w", err)
		s.mu.Unlock()
		return s.failed
	}
	return nil
}

// broken returns why the device must be opened again, or nil.
func (s *keyStore) broken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// put records a change; a nil value deletes the row.
func (s *keyStore) put(kind, key string, value []byte) {
	s.mu.Lock()
	s.changed[[2]string{kind, key}] = value
	s.mu.Unlock()
}

func (s *keyStore) putJSON(kind, key string, value any) error {
	b, err := json.Marshal(value)
	if err == nil {
		s.put(kind, key, b)
	}
	return err
}

// PutAccount implements [crypto.Store].
func (s *keyStore) PutAccount(ctx context.Context, account *crypto.OlmAccount) error {
	pickle, err := account.Internal.Pickle(s.key)
	if err != nil {
		return err
	}
	return errors.Join(s.MemoryStore.PutAccount(ctx, account), s.putJSON(kindAccount, "", storedAccount{Pickle: pickle, Shared: account.Shared}))
}

// AddSession implements [crypto.Store].
func (s *keyStore) AddSession(ctx context.Context, key id.SenderKey, session *crypto.OlmSession) error {
	s.mu.Lock()
	s.Sessions[key] = append(s.Sessions[key], session)
	s.mu.Unlock()
	return s.UpdateSession(ctx, key, session)
}

// UpdateSession implements [crypto.Store].
func (s *keyStore) UpdateSession(_ context.Context, key id.SenderKey, session *crypto.OlmSession) error {
	pickle, err := session.Internal.Pickle(s.key)
	if err != nil {
		return err
	}
	return s.putJSON(kindOlm, string(key)+" "+string(session.ID()), storedSession{
		SenderKey: key, Pickle: pickle, Created: session.CreationTime, Encrypted: session.LastEncryptedTime, Decrypted: session.LastDecryptedTime,
	})
}

// DeleteSession implements [crypto.Store].
func (s *keyStore) DeleteSession(_ context.Context, key id.SenderKey, session *crypto.OlmSession) error {
	s.mu.Lock()
	s.Sessions[key] = slices.DeleteFunc(slices.Clone(s.Sessions[key]), func(other *crypto.OlmSession) bool { return other == session })
	s.mu.Unlock()
	s.put(kindOlm, string(key)+" "+string(session.ID()), nil)
	return nil
}

// forgetSessions deletes the sessions with all devices; the next message starts new ones.
func (s *keyStore) forgetSessions(ctx context.Context) error {
	s.mu.Lock()
	all := maps.Clone(s.Sessions)
	s.mu.Unlock()
	for key, sessions := range all {
		for _, session := range sessions {
			if err := s.DeleteSession(ctx, key, session); err != nil {
				return err
			}
		}
	}
	return nil
}

// PutOlmHash implements [crypto.Store]. It keeps nothing: a repeated message cannot be decrypted twice anyway.
func (s *keyStore) PutOlmHash(context.Context, [32]byte, time.Time) error { return nil }

// HasSession implements [crypto.Store].
func (s *keyStore) HasSession(_ context.Context, key id.SenderKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.Sessions[key]) > 0
}

// GetSessions implements [crypto.Store].
func (s *keyStore) GetSessions(_ context.Context, key id.SenderKey) (crypto.OlmSessionList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.Sessions[key])
	slices.SortFunc(all, func(a, b *crypto.OlmSession) int { return b.LastDecryptedTime.Compare(a.LastDecryptedTime) })
	return all, nil
}

// GetLatestSession implements [crypto.Store].
func (s *keyStore) GetLatestSession(ctx context.Context, key id.SenderKey) (*crypto.OlmSession, error) {
	all, err := s.GetSessions(ctx, key)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

// GetNewestSessionCreationTS implements [crypto.Store].
func (s *keyStore) GetNewestSessionCreationTS(ctx context.Context, key id.SenderKey) (newest time.Time, err error) {
	all, err := s.GetSessions(ctx, key)
	for _, session := range all {
		if session.CreationTime.After(newest) {
			newest = session.CreationTime
		}
	}
	return newest, err
}

// PutGroupSession implements [crypto.Store]. It keeps nothing, because the bot doesn't read messages.
func (s *keyStore) PutGroupSession(context.Context, *crypto.InboundGroupSession) error { return nil }

// PutWithheldGroupSession implements [crypto.Store]; see PutGroupSession.
func (s *keyStore) PutWithheldGroupSession(context.Context, event.RoomKeyWithheldEventContent) error {
	return nil
}

// GetDevices implements [crypto.Store].
func (s *keyStore) GetDevices(_ context.Context, user id.UserID) (map[id.DeviceID]*id.Device, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.Devices[user]), nil
}

// GetDevice implements [crypto.Store].
func (s *keyStore) GetDevice(_ context.Context, user id.UserID, device id.DeviceID) (*id.Device, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Devices[user][device], nil
}

// FindDeviceByKey implements [crypto.Store].
func (s *keyStore) FindDeviceByKey(_ context.Context, user id.UserID, key id.IdentityKey) (*id.Device, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.Devices[user] {
		if d.IdentityKey == key {
			return d, nil
		}
	}
	return nil, nil
}

// PutDevice implements [crypto.Store].
func (s *keyStore) PutDevice(ctx context.Context, user id.UserID, device *id.Device) error {
	devices, err := s.GetDevices(ctx, user)
	if err != nil {
		return err
	}
	if devices == nil {
		devices = map[id.DeviceID]*id.Device{}
	}
	devices[device.DeviceID] = device
	return s.PutDevices(ctx, user, devices)
}

// PutDevices implements [crypto.Store].
func (s *keyStore) PutDevices(_ context.Context, user id.UserID, devices map[id.DeviceID]*id.Device) error {
	s.mu.Lock()
	s.Devices[user] = maps.Clone(devices)
	s.mu.Unlock()
	return s.putJSON(kindDevices, string(user), devices)
}

// FilterTrackedUsers implements [crypto.Store].
func (s *keyStore) FilterTrackedUsers(_ context.Context, users []id.UserID) ([]id.UserID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(users), func(u id.UserID) bool { return s.Devices[u] == nil }), nil
}

// PutCrossSigningKey implements [crypto.Store].
func (s *keyStore) PutCrossSigningKey(ctx context.Context, user id.UserID, usage id.CrossSigningUsage, key id.Ed25519) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.MemoryStore.PutCrossSigningKey(ctx, user, usage, key)
}

// GetCrossSigningKeys implements [crypto.Store].
func (s *keyStore) GetCrossSigningKeys(ctx context.Context, user id.UserID) (map[id.CrossSigningUsage]id.CrossSigningKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.MemoryStore.GetCrossSigningKeys(ctx, user)
	return maps.Clone(all), err
}

// PutSignature implements [crypto.Store].
func (s *keyStore) PutSignature(ctx context.Context, user id.UserID, key id.Ed25519, signer id.UserID, signerKey id.Ed25519, signature string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.MemoryStore.PutSignature(ctx, user, key, signer, signerKey, signature)
}

// GetSignaturesForKeyBy implements [crypto.Store].
func (s *keyStore) GetSignaturesForKeyBy(ctx context.Context, user id.UserID, key id.Ed25519, signer id.UserID) (map[id.Ed25519]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.MemoryStore.GetSignaturesForKeyBy(ctx, user, key, signer)
	return maps.Clone(all), err
}

// IsKeySignedBy implements [crypto.Store].
func (s *keyStore) IsKeySignedBy(ctx context.Context, user id.UserID, key id.Ed25519, signer id.UserID, signerKey id.Ed25519) (bool, error) {
	all, err := s.GetSignaturesForKeyBy(ctx, user, key, signer)
	_, signed := all[signerKey]
	return signed, err
}

// DropSignaturesByKey implements [crypto.Store].
func (s *keyStore) DropSignaturesByKey(ctx context.Context, user id.UserID, key id.Ed25519) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.MemoryStore.DropSignaturesByKey(ctx, user, key)
}

// PutSecret implements [crypto.Store].
func (s *keyStore) PutSecret(_ context.Context, name id.Secret, value string) error {
	sealed, err := libolmpickle.Pickle(s.key, []byte(value))
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.Secrets[name] = value
	s.mu.Unlock()
	s.put(kindSecret, string(name), sealed)
	return nil
}

// GetSecret implements [crypto.Store].
func (s *keyStore) GetSecret(_ context.Context, name id.Secret) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Secrets[name], nil
}

// DeleteSecret implements [crypto.Store].
func (s *keyStore) DeleteSecret(_ context.Context, name id.Secret) error {
	s.mu.Lock()
	delete(s.Secrets, name)
	s.mu.Unlock()
	s.put(kindSecret, string(name), nil)
	return nil
}
