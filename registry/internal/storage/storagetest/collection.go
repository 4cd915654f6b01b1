package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"slipway/registry/internal/storage"
)

func testAttempt(t *testing.T, p pair) {
	a := p.a.Begin()
	if err := p.a.Apply(t.Context(), a, storage.Stage{{Key: "/r/f", Content: []byte("x")}}); err != nil {
		t.Fatalf("Apply: %v", err)
	}
	p.wantContent(t, "/r/f", "x")
	if err := a.Err(); err != nil {
		t.Errorf("Err: %v", err)
	}
	for _, a := range []*storage.Attempt{nil, p.b.Begin()} {
		info, err := storage.Rely(t.Context(), p.b, a, "/r/f")
		if err != nil || info.Key != "/r/f" || info.Size != 1 {
			t.Errorf("Rely = %+v, %v", info, err)
		}
		_, err = storage.Rely(t.Context(), p.b, a, "/r/none")
		wantError(t, "Rely on nothing", err, storage.ErrNotExist)
	}
	future := stat(t, p.a, "/r/f")
	future.Modified = future.Modified.Add(2 * storage.AttemptLimit)
	if !p.a.Begin().Stale(future) {
		t.Error("an object with a date in the future is fresh")
	}
}

func testLock(t *testing.T, p pair) {
	lock := func(s storage.Store, name string, shared bool) func() {
		t.Helper()
		unlock, err := s.Lock(t.Context(), name, shared)
		if err != nil {
			t.Fatalf("Lock(%s, shared %v): %v", name, shared, err)
		}
		return unlock
	}
	wantBusy := func(s storage.Store, name string, shared bool) {
		t.Helper()
		unlock, err := s.Lock(t.Context(), name, shared)
		wantError(t, fmt.Sprintf("Lock(%s, shared %v)", name, shared), err, storage.ErrBusy)
		if err == nil {
			unlock()
		}
	}
	alone := lock(p.a, "work", false)
	p.both(func(s storage.Store) {
		wantBusy(s, "work", false)
		lock(s, "other", false)()
	})
	alone()
	alone() // does nothing
	lock(p.b, "work", false)()

	unlock := []func(){lock(p.a, storage.LockServers, true)}
	if p.a != p.b {
		unlock = append(unlock, lock(p.b, storage.LockServers, true))
	}
	for _, f := range unlock {
		p.both(func(s storage.Store) { wantBusy(s, storage.LockServers, false) })
		f()
	}
}

func testLockHasOneHolder(t *testing.T, p pair) {
	var holders, held atomic.Int32
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 5 {
				unlock, err := p.nth(i).Lock(background, "work", false)
				if errors.Is(err, storage.ErrBusy) {
					continue
				}
				if err != nil {
					t.Errorf("Lock: %v", err)
					return
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d hold the lock", n)
				}
				held.Add(1)
				holders.Add(-1)
				unlock()
			}
		})
	}
	all.Wait()
	if held.Load() == 0 {
		t.Error("nobody got the lock")
	}
}

// serve holds the lock that servers hold.
func serve(t *testing.T, s storage.Store) {
	t.Helper()
	unlock, err := s.Lock(t.Context(), storage.LockServers, true)
	if err != nil {
		t.Fatalf("Lock(%s): %v", storage.LockServers, err)
	}
	t.Cleanup(unlock)
}

func collect(t *testing.T, s storage.Store) storage.Collection {
	t.Helper()
	c, err := s.Collect(t.Context())
	if err != nil {
		t.Fatalf("Collect: %v", err)
	}
	return c
}

// age returns once the store's clock is past the date of the object at key.
func age(t *testing.T, s storage.Store, key string) {
	t.Helper()
	was := stat(t, s, key).Modified
	eventually(t, "the store's clock goes on", func() bool {
		put(t, s, "/clock", "x")
		return stat(t, s, "/clock").Modified.After(was)
	})
}

func deleteInfos(t *testing.T, c storage.Collection, infos []storage.Info) (kept []string) {
	t.Helper()
	left, err := c.Delete(t.Context(), infos)
	if err != nil {
		t.Fatalf("Delete: %v", err)
	}
	for _, info := range left {
		kept = append(kept, info.Key)
	}
	slices.Sort(kept)
	return kept
}

// An attempt that began before a collection changes nothing any more, and one that begins
// later renews what it relies on.
func testCollectionFencesAttempts(t *testing.T, p pair) {
	serve(t, p.b)
	put(t, p.a, "/r/old", "x")
	age(t, p.a, "/r/old")
	late, kept := p.b.Begin(), p.b.Begin()
	put(t, p.b, "/r/before", "x")
	c := collect(t, p.a)
	defer c.Close()
	if c.Offline() {
		t.Error("offline beside a server")
	}
	_, err := p.b.Collect(t.Context())
	wantError(t, "Collect beside a collection", err, storage.ErrBusy)
	for _, a := range []*storage.Attempt{late, kept} {
		err = p.b.Apply(t.Context(), a, storage.Stage{{Key: "/r/late", Content: []byte("x")}})
		wantError(t, "Apply of an attempt from before the collection", err, storage.ErrExpired)
	}
	p.wantAbsent(t, "/r/late")
	for i := range 2 {
		a := p.nth(i).Begin()
		info := stat(t, p.nth(i), "/r/old")
		if info.Modified.Before(c.Start()) != (i == 0) {
			t.Errorf("dated %v, the collection started %v", info.Modified, c.Start())
		}
		if i == 0 && !a.Stale(info) {
			t.Errorf("an object of %v is fresh to an attempt of %v, the collection started %v", info.Modified, a.Begun(), c.Start())
		}
		if _, err := storage.Rely(t.Context(), p.nth(i), a, "/r/old"); err != nil {
			t.Fatalf("Rely: %v", err)
		}
		err := p.nth(i).Apply(t.Context(), a, storage.Stage{{Key: fmt.Sprint("/r/new", i), Content: []byte("x")}})
		if errors.Is(err, storage.ErrExpired) { // once
			err = p.nth(i).Apply(t.Context(), p.nth(i).Begin(), storage.Stage{{Key: fmt.Sprint("/r/new", i), Content: []byte("x")}})
		}
		if err != nil {
			t.Errorf("Apply beside the collection: %v", err)
		}
	}
	put(t, p.b, "/r/without", "x") // an attempt of the store's own
	p.wantContent(t, "/r/without", "x")
	u := create(t, p.b, uploadKey)
	write(t, u, "bytes")
	apply(t, p.b, storage.Stage{{Key: blobKey, Upload: u}, {Key: "/r/link", Content: []byte("x")}})
	p.wantContent(t, blobKey, "bytes")
}

// A collection deletes only what nobody has changed or renewed since it was read.
func testCollectionKeepsWhatChanged(t *testing.T, p pair) {
	serve(t, p.b)
	keys := []string{"/r/garbage/link", "/r/renewed/link", "/r/replaced/link", "/r/uploaded/data", "/r/gone/link", "/r/kept/link"}
	for _, key := range keys {
		put(t, p.a, key, "old")
	}
	age(t, p.a, keys[len(keys)-1])
	c := collect(t, p.a)
	var infos []storage.Info
	for info, err := range p.a.List(t.Context(), "/r", storage.ListOptions{Flat: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if info.Key != "/r/kept/link" {
			infos = append(infos, info)
		}
	}
	if _, err := storage.Rely(t.Context(), p.b, p.b.Begin(), "/r/renewed/link"); err != nil {
		t.Fatal(err)
	}
	put(t, p.b, "/r/replaced/link", "new")
	u := create(t, p.b, uploadKey)
	write(t, u, "new")
	apply(t, p.b, storage.Stage{{Key: "/r/uploaded/data", Upload: u}})
	remove(t, p.b, "/r/gone/link")
	if kept, want := deleteInfos(t, c, infos), []string{"/r/renewed/link", "/r/replaced/link", "/r/uploaded/data"}; !slices.Equal(kept, want) {
		t.Errorf("Delete kept %q, want %q", kept, want)
	}
	p.wantAbsent(t, "/r/garbage/link")
	p.wantAbsent(t, "/r/gone/link")
	p.wantContent(t, "/r/renewed/link", "old")
	p.wantContent(t, "/r/replaced/link", "new")
	p.wantContent(t, "/r/uploaded/data", "new")
	p.wantContent(t, "/r/kept/link", "old")
	c.Close()
	unlock, err := p.b.Lock(t.Context(), storage.LockCollector, false)
	if err != nil {
		t.Fatalf("the lock after Close: %v", err)
	}
	unlock()
}

// While nobody serves, many objects go at once, and no server starts before the end.
func testCollectionOffline(t *testing.T, p pair) {
	n := p.scale.Page + p.scale.Page/10
	var stage storage.Stage
	for i := range n {
		stage = append(stage, storage.Change{Key: fmt.Sprintf("/r/%d/link", i), Content: []byte("x"), Ephemeral: true})
	}
	applyMany(t, p.a, stage)
	var newest storage.Info
	for info, err := range p.a.List(t.Context(), "/r", storage.ListOptions{Flat: true}) { // changes of a stage come in any order
		if err != nil {
			t.Fatal(err)
		}
		if info.Modified.After(newest.Modified) {
			newest = info
		}
	}
	age(t, p.a, newest.Key)
	c := collect(t, p.a)
	if c.Offline() {
		_, err := p.b.Lock(t.Context(), storage.LockServers, true)
		wantError(t, "a server that starts beside an offline collection", err, storage.ErrBusy)
		if err != nil && strings.TrimSpace(err.Error()) == "" {
			t.Error("the error has no text")
		}
	}
	var infos []storage.Info
	for info, err := range p.b.List(t.Context(), "/r", storage.ListOptions{Flat: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if !info.Modified.Before(c.Start()) {
			t.Fatalf("%s is dated %v, the collection started %v", info.Key, info.Modified, c.Start())
		}
		infos = append(infos, info)
	}
	if len(infos) != n {
		t.Fatalf("%d objects are listed, want %d", len(infos), n)
	}
	parts := 1 // each call may wait for the attempts under way
	if c.Offline() {
		parts = 2
	}
	var all sync.WaitGroup
	for i := range parts {
		all.Go(func() {
			if kept, err := c.Delete(background, infos[i*n/parts:(i+1)*n/parts]); err != nil || len(kept) > 0 {
				t.Errorf("Delete kept %d, %v", len(kept), err)
			}
		})
	}
	all.Wait()
	if left := list(t, p.b, "/r", storage.ListOptions{Flat: true}); len(left) > 0 {
		t.Errorf("%d are left", len(left))
	}
	c.Close()
	serve(t, p.b)
}
