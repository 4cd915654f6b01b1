// Package session signs the sessions of the pages, and remembers in the storage which of them have
// ended before their time.
package session

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"time"

	"slipway/registry/internal/cache"
	"slipway/registry/internal/identity/keyring"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/storage"
)

const (
	// Lifetime is the duration of a session.
	Lifetime = 12 * time.Hour

	// Fresh is the time for which a valid session isn't looked up again: one that was ended at
	// another replica ends here that much later.
	Fresh = 2 * time.Second

	maxKnown = 4096
	maxClean = 1000 // expired records that one logout removes
)

// Sessions signs what browsers keep. It is safe for concurrent use.
type Sessions struct {
	ring  *keyring.Ring // nil = fixed is the key
	fixed []byte
	store storage.Store // nil = what has ended is known to this process only

	mu    sync.Mutex // held while known is changed
	known *cache.Cache[string, seen]
}

// seen records the last lookup of a session.
type seen struct {
	ended bool
	at    time.Time
}

// New signs with keys of the ring, which all replicas share through the store.
func New(store storage.Store, ring *keyring.Ring) *Sessions {
	return &Sessions{ring: ring, store: store, known: cache.New[string, seen](maxKnown)}
}

// Fixed signs with a key that is made of the secret. It is for pages without logins, where a session
// gives no rights.
func Fixed(secret []byte) *Sessions {
	return &Sessions{fixed: secret, known: cache.New[string, seen](maxKnown)}
}

// Seal signs content for a purpose.
func (s *Sessions) Seal(purpose string, content []byte) (string, error) {
	id, key := "0", s.fixed
	if s.ring != nil {
		var err error
		if id, key, err = s.ring.Secret(); err != nil {
			return "", err
		}
	}
	return id + "." + base64.RawURLEncoding.EncodeToString(append(mac(key, purpose, content), content...)), nil
}

// Open returns the content that Seal has signed for the purpose, at any replica.
func (s *Sessions) Open(purpose, sealed string) (content []byte, ok bool) {
	id, text, _ := strings.Cut(sealed, ".")
	key := s.fixed
	if s.ring != nil {
		if key, ok = s.ring.SecretOf(id); !ok {
			return nil, false
		}
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) < sha256.Size {
		return nil, false
	}
	content = raw[sha256.Size:]
	return content, hmac.Equal(raw[:sha256.Size], mac(key, purpose, content))
}

func mac(key []byte, purpose string, content []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("pages " + purpose + "\x00"))
	h.Write(content)
	return h.Sum(nil)
}

// keyOf returns the key that records the end of a session. The name reveals nothing by which it could be used.
func keyOf(nonce []byte) string {
	sum := sha256.Sum256(append([]byte("ended\x00"), nonce...))
	return layout.Sessions + "/" + hex.EncodeToString(sum[:16])
}

// End ends the session with that nonce: here immediately, and at other replicas within Fresh. After an
// error only this process knows.
func (s *Sessions) End(ctx context.Context, nonce []byte) error {
	key := keyOf(nonce)
	s.mu.Lock()
	s.known.Put(key, seen{ended: true}, 1)
	s.mu.Unlock()
	if s.store == nil {
		return nil
	}
	err := s.store.Apply(ctx, nil, storage.Stage{{Key: key, Content: []byte{}}})
	return errors.Join(err, s.clean(ctx))
}

// Ended reports whether the session with that nonce was ended.
func (s *Sessions) Ended(ctx context.Context, nonce []byte) (bool, error) {
	key := keyOf(nonce)
	known, ok := s.known.Get(key)
	if known.ended || s.store == nil || ok && time.Since(known.at) < Fresh {
		return known.ended, nil
	}
	now := time.Now()
	_, err := s.store.Stat(ctx, key)
	if err != nil && !errors.Is(err, storage.ErrNotExist) {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, _ = s.known.Get(key); !known.ended { // it may have been ended here meanwhile
		known = seen{err == nil, now}
		s.known.Put(key, known, 1)
	}
	return known.ended, nil
}

// clean removes the notes on sessions that have expired by now.
func (s *Sessions) clean(ctx context.Context) error {
	var old storage.Stage
	for info, err := range s.store.List(ctx, layout.Sessions, storage.ListOptions{Max: maxClean}) {
		if err != nil {
			return err
		}
		if !info.Prefix && time.Since(info.Modified) > Lifetime+time.Hour {
			old = append(old, storage.Change{Key: info.Key, Delete: true})
		}
	}
	if len(old) == 0 {
		return nil
	}
	return s.store.Apply(ctx, nil, old)
}
