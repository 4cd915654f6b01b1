package session

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/identity/keyring"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

func open(t *testing.T, store storage.Store) *Sessions {
	t.Helper()
	ring, err := keyring.Open(t.Context(), store, Lifetime, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return New(store, ring)
}

// Replicas that share a storage accept each other's sessions, and nobody else's.
func TestSealAndOpen(t *testing.T) {
	store := memory.New()
	a, b, foreign := open(t, store), open(t, store), open(t, memory.New())
	sealed, err := a.Seal("session", []byte("who"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Sessions{a, b} {
		if content, ok := s.Open("session", sealed); !ok || string(content) != "who" {
			t.Errorf("%q, %v", content, ok)
		}
		if _, ok := s.Open("login", sealed); ok {
			t.Error("taken for another purpose")
		}
	}
	for what, s := range map[string]*Sessions{"another storage": foreign, "a known secret": Fixed([]byte("asecretforlocaldevelopment"))} {
		if _, ok := s.Open("session", sealed); ok {
			t.Errorf("%s opens it", what)
		}
		forged, err := s.Seal("session", []byte("who"))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := a.Open("session", forged); ok {
			t.Errorf("what %s has sealed is taken", what)
		}
	}
	for _, odd := range []string{"", ".", "0.", sealed + "A", sealed[:20], sealed[1:], "x" + sealed} {
		if _, ok := a.Open("session", odd); ok {
			t.Errorf("%q is taken", odd)
		}
	}
}

// A session that was ended ends at all replicas, also those that start later; its note goes once the
// session would have expired.
func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		a, b := open(t, store), open(t, store)
		want := func(s *Sessions, nonce string, want bool) {
			t.Helper()
			if got, err := s.Ended(t.Context(), []byte(nonce)); got != want || err != nil {
				t.Errorf("%s has ended: %v, %v", nonce, got, err)
			}
		}
		want(a, "one", false)
		want(b, "one", false)
		if err := a.End(t.Context(), []byte("one")); err != nil {
			t.Fatal(err)
		}
		want(a, "one", true)
		want(a, "two", false)
		time.Sleep(Fresh)
		want(b, "one", true)
		want(open(t, store), "one", true)

		time.Sleep(Lifetime + 2*time.Hour)
		if err := b.End(t.Context(), []byte("two")); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Stat(t.Context(), keyOf([]byte("one"))); !errors.Is(err, storage.ErrNotExist) {
			t.Errorf("the note stays: %v", err)
		}
		keys := 0
		for _, err := range store.List(t.Context(), layout.Sessions, storage.ListOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			keys++
		}
		if keys != 1 {
			t.Errorf("%d notes", keys)
		}
	})
}
