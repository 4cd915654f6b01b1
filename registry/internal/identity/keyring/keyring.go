// Package keyring keeps the keys that sign the tokens of the built-in token service and the sessions of
// the pages. They are made at the first start, replaced from time to time, and shared by all replicas
// through the storage.
package keyring

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/identity/token"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/sharedstate"
	"slipway/registry/internal/storage"
)

const (
	interval = 10 * time.Minute // between two reads of the storage, unless a client names an unknown key

	// rotateAfter is the age at which a key is replaced, and publishFor how long its
	// successor is known before it signs, so that all replicas have read it.
	rotateAfter = 30 * 24 * time.Hour
	publishFor  = 30 * time.Minute

	askEvery   = 2 * time.Second // between two reads for unknown keys
	askTimeout = 5 * time.Second
)

// Ring is the keys that are in force.
type Ring struct {
	doc  *sharedstate.Document[ring]
	log  *zap.Logger
	keep time.Duration // how long after its replacement a key verifies

	asking sync.Mutex // held while the storage is read for an unknown key
	asked  time.Time  // when that was

	mu   sync.Mutex // held while keys are parsed
	view atomic.Pointer[view]
}

type ring struct {
	Keys []key `json:"keys"` // oldest first
}

type key struct {
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
	Seed    []byte    `json:"seed"` // of an Ed25519 key
}

// view is one version of the ring, ready for use.
type view struct {
	of      *ring
	trusted *token.Keys
	private []ed25519.PrivateKey
}

// Open reads the keys, and makes the first one. Tokens and sessions are valid for at most
// lifetime. Where the storage cannot be written the key is this process's own. Keys that can't be
// understood are replaced: what they have signed ends, and the registry starts.
func Open(ctx context.Context, store storage.Store, lifetime time.Duration, log *zap.Logger) (*Ring, error) {
	r := &Ring{doc: sharedstate.New[ring](store, layout.Keys), log: log, keep: lifetime + time.Hour}
	err := r.rotate(ctx, time.Now())
	if errors.Is(err, storage.ErrReadOnly) || errors.Is(err, storage.ErrDenied) || errors.Is(err, storage.ErrNoSpace) {
		log.Warn("the storage cannot be written: the key that signs tokens and sessions is this process's own, and what it has signed ends with it", zap.Error(err))
		own := &ring{Keys: []key{newKey(time.Now())}}
		r.view.Store(newView(own))
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the keys that sign tokens and sessions: %w", err)
	}
	return r, nil
}

// Watch keeps the keys current, and replaces them in time, until ctx ends.
func (r *Ring) Watch(ctx context.Context) {
	sharedstate.Poll(ctx, interval, r.log, "keys that sign tokens and sessions; the known keys stay in use", func(ctx context.Context) error {
		return r.rotate(ctx, time.Now())
	})
}

// ask reads the keys again because of an unknown key: another process may have replaced them all. It does nothing
// if they were read a moment ago, because anybody can send the ID of a key that doesn't exist.
func (r *Ring) ask() {
	r.asking.Lock()
	defer r.asking.Unlock()
	if time.Since(r.asked) < askEvery {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	if err := r.rotate(ctx, time.Now()); err != nil {
		r.log.Warn("cannot read the keys that sign tokens and sessions for one that is unknown", zap.Error(err))
	}
	r.asked = time.Now()
}

// rotate adds a key if there is none or the newest is old, and drops those that no
// valid token can be signed with.
func (r *Ring) rotate(ctx context.Context, now time.Time) error {
	err := r.doc.Refresh(ctx)
	if errors.Is(err, sharedstate.ErrDamaged) {
		r.log.Error("the keys that sign tokens and sessions are damaged; new ones replace them, and what they have signed ends", zap.Error(err))
		if err = r.doc.Discard(ctx); err == nil {
			err = r.doc.Refresh(ctx)
		}
	}
	if err != nil {
		return err
	}
	if known, _ := r.doc.Last(); !due(known, now) {
		return nil
	}
	return r.doc.Update(ctx, func(all *ring) error {
		if !due(all, now) {
			return nil // another replica was faster
		}
		all.Keys = slices.DeleteFunc(all.Keys, func(k key) bool { return now.Sub(k.Created) > rotateAfter+publishFor+r.keep })
		all.Keys = append(all.Keys, newKey(now))
		return nil
	})
}

func due(all *ring, now time.Time) bool {
	return len(all.Keys) == 0 || now.Sub(all.Keys[len(all.Keys)-1].Created) > rotateAfter
}

func newKey(now time.Time) key {
	seed, id := make([]byte, ed25519.SeedSize), make([]byte, 8)
	_, _ = rand.Read(seed) // never fails
	_, _ = rand.Read(id)
	return key{ID: hex.EncodeToString(id), Created: now.UTC(), Seed: seed}
}

func newView(of *ring) *view {
	v := &view{of: of}
	public := map[string]ed25519.PublicKey{}
	for _, k := range of.Keys {
		if len(k.Seed) != ed25519.SeedSize {
			v.private = append(v.private, nil)
			continue
		}
		private := ed25519.NewKeyFromSeed(k.Seed)
		v.private = append(v.private, private)
		public[k.ID] = private.Public().(ed25519.PublicKey)
	}
	v.trusted = token.NewKeys(public)
	return v
}

// current returns the view of the keys that were read last.
func (r *Ring) current() *view {
	all, _ := r.doc.Last()
	v := r.view.Load()
	if v != nil && (v.of == all || all == nil || len(all.Keys) == 0) {
		return v
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if v = r.view.Load(); v == nil || v.of != all {
		next := newView(all)
		if v != nil && slices.EqualFunc(v.of.Keys, all.Keys, func(a, b key) bool { return a.ID == b.ID }) {
			next.trusted = v.trusted // so that verified tokens stay remembered
		}
		v = next
		r.view.Store(v)
	}
	return v
}

// Trusted returns the keys that verify tokens.
func (r *Ring) Trusted() *token.Keys { return r.current().trusted }

// Renewed returns the keys that verify tokens after a token with an unknown key. It may read the storage.
func (r *Ring) Renewed() *token.Keys {
	r.ask()
	return r.Trusted()
}

// Sign signs claims with the newest key that every replica knows.
func (r *Ring) Sign(claims *token.Claims) (string, error) {
	v := r.current()
	chosen, err := v.newest()
	if err != nil {
		return "", err
	}
	return token.Sign(claims, v.of.Keys[chosen].ID, v.private[chosen])
}

// newest returns the index of the newest key that every replica knows.
func (v *view) newest() (chosen int, err error) {
	chosen = -1
	for i, k := range v.of.Keys {
		if v.private[i] != nil && (chosen < 0 || time.Since(k.Created) > publishFor) {
			chosen = i
		}
	}
	if chosen < 0 {
		return 0, errors.New("there is no key to sign with")
	}
	return chosen, nil
}

// Secret returns a secret that is made of the newest key that every replica knows, and its ID. It signs
// sessions.
func (r *Ring) Secret() (id string, secret []byte, err error) {
	v := r.current()
	chosen, err := v.newest()
	if err != nil {
		return "", nil, err
	}
	return v.of.Keys[chosen].ID, v.of.Keys[chosen].secret(), nil
}

// SecretOf returns the secret with that ID; ok is false if there is none any more. It may read the storage.
func (r *Ring) SecretOf(id string) (secret []byte, ok bool) {
	if secret, ok = r.secretOf(id); !ok {
		r.ask()
		secret, ok = r.secretOf(id)
	}
	return secret, ok
}

func (r *Ring) secretOf(id string) (secret []byte, ok bool) {
	v := r.current()
	for i, k := range v.of.Keys {
		if v.private[i] != nil && k.ID == id {
			return k.secret(), true
		}
	}
	return nil, false
}

func (k *key) secret() []byte {
	h := hmac.New(sha256.New, k.Seed)
	h.Write([]byte("slipway sessions"))
	return h.Sum(nil)
}
