package keyring

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/identity/token"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hookedtest"
	"slipway/registry/internal/storage/memory"
)

const lifetime = time.Hour

func open(t testing.TB, store storage.Store) *Ring {
	t.Helper()
	r, err := Open(t.Context(), store, lifetime, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sign(t testing.TB, r *Ring) string {
	t.Helper()
	raw, err := r.Sign(&token.Claims{Audience: token.Audience{"registry"}, Expires: token.At(time.Now().Add(lifetime))})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func verify(r *Ring, raw string) error {
	_, err := token.NewVerifier(token.VerifierOptions{Audience: "registry", Keys: r.Trusted}).Verify(raw, time.Now())
	return err
}

func TestReplicasShareTheFirstKey(t *testing.T) {
	store := memory.New()
	rings := make([]*Ring, 4)
	var group sync.WaitGroup
	for i := range rings {
		group.Go(func() { rings[i], _ = Open(t.Context(), store, lifetime, zap.NewNop()) })
	}
	group.Wait()
	for _, from := range rings {
		raw := sign(t, from)
		for _, to := range rings {
			if err := verify(to, raw); err != nil {
				t.Error(err)
			}
		}
	}
}

// Months go by: keys are replaced, each token counts at each replica until its end, and
// old keys go.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		one, two := open(t, store), open(t, store)
		ctx, cancel := context.WithCancel(t.Context())
		go one.Watch(ctx)
		go two.Watch(ctx)
		ids := map[string]bool{}
		for day := range 66 {
			if day%2 == 0 {
				time.Sleep(3 * time.Second) // not always the same moment of an interval
			}
			raw := sign(t, one)
			ids[one.current().of.Keys[len(one.current().of.Keys)-1].ID] = true
			if err := verify(two, raw); err != nil {
				t.Fatalf("day %d: a new token: %v", day, err)
			}
			time.Sleep(lifetime - time.Second)
			if err := verify(two, raw); err != nil {
				t.Fatalf("day %d: before its end: %v", day, err)
			}
			time.Sleep(23 * time.Hour)
		}
		if len(ids) < 3 {
			t.Errorf("%d keys in 66 days", len(ids))
		}
		if n := len(one.current().of.Keys); n > 2 {
			t.Errorf("%d keys are kept", n)
		}
		cancel()
		synctest.Wait()
	})
}

// A new key does not sign before the other replicas have it.
func TestNewKeyIsPublishedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		one, two := open(t, store), open(t, store) // two reads nothing more
		time.Sleep(rotateAfter + time.Second)
		if err := one.rotate(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		if n := len(one.current().of.Keys); n != 2 {
			t.Fatalf("%d keys", n)
		}
		if err := verify(two, sign(t, one)); err != nil {
			t.Errorf("just after the new key was made: %v", err)
		}
		time.Sleep(publishFor + time.Second)
		if err := verify(two, sign(t, one)); err == nil {
			t.Error("the new key does not sign")
		}
	})
}

func TestRemovedKeysAreMadeAnew(t *testing.T) {
	store := memory.New()
	r := open(t, store)
	old := sign(t, r)
	if err := store.Apply(t.Context(), nil, storage.Stage{{Key: layout.Keys, Delete: true}}); err != nil {
		t.Fatal(err)
	}
	if err := r.rotate(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := verify(r, old); err == nil {
		t.Error("a token of the removed key counts")
	}
	if err := verify(r, sign(t, r)); err != nil {
		t.Error(err)
	}
}

// A replica that doesn't know a key reads the storage, at most every two seconds: another one may have replaced all keys.
func TestUnknownKeyIsReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		store := &hookedtest.Store{Store: memory.New(), OnRead: func(_ context.Context, op hookedtest.Op, _ string) error {
			if op == hookedtest.Stat {
				reads++
			}
			return nil
		}}
		one, two := open(t, store), open(t, store)
		verifier := token.NewVerifier(token.VerifierOptions{Audience: "registry", Keys: two.Trusted, Renewed: two.Renewed})
		time.Sleep(time.Minute)
		if err := store.Apply(t.Context(), nil, storage.Stage{{Key: layout.Keys, Delete: true}}); err != nil {
			t.Fatal(err)
		}
		if err := one.rotate(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := verifier.Verify(sign(t, one), time.Now()); err != nil {
			t.Error(err)
		}
		if id, _, err := one.Secret(); err != nil {
			t.Error(err)
		} else if _, ok := two.SecretOf(id); !ok {
			t.Error("the secret of a new key is unknown")
		}
		own := open(t, readOnly(memory.New()))
		time.Sleep(time.Minute)
		reads = 0
		for range 100 {
			if _, err := verifier.Verify(sign(t, own), time.Now()); err == nil {
				t.Fatal("a token of a foreign key is valid")
			}
		}
		if reads != 1 {
			t.Errorf("%d reads for 100 tokens of a foreign key", reads)
		}
	})
}

// readOnly returns the store so that it cannot be written.
func readOnly(s storage.Store) storage.Store {
	return &hookedtest.Store{Store: s, OnApply: func([]storage.Stage) error { return storage.ErrReadOnly }}
}

func TestReadOnlyStorage_KeyOfItsOwn(t *testing.T) {
	r := open(t, readOnly(memory.New()))
	if err := verify(r, sign(t, r)); err != nil {
		t.Error(err)
	}
}

// Keys that nobody can read are replaced: they must not stop the registry.
func TestDamagedKeysAreReplaced(t *testing.T) {
	for _, content := range []string{"", "garbage", `{"keys": [{"id": "a"`, "\x00\x00\x00\x00"} {
		store := memory.New()
		if err := store.Apply(t.Context(), nil, storage.Stage{{Key: layout.Keys, Content: []byte(content)}}); err != nil {
			t.Fatal(err)
		}
		if err := verify(open(t, readOnly(store)), sign(t, open(t, readOnly(store)))); err == nil {
			t.Error("processes that can't write share a key")
		}
		a, b := open(t, store), open(t, store)
		if err := verify(b, sign(t, a)); err != nil {
			t.Errorf("%q: %v", content, err)
		}
	}
}
