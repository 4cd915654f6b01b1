package storagetest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"slipway/registry/internal/storage"
)

// The version changes with the content, whatever the size and the clock.
func testVersion(t *testing.T, p pair) {
	seen := map[string]string{}
	for i := range 20 {
		content := strconv.Itoa(100 + i)
		put(t, p.nth(i), "/f", content)
		for range 3 {
			p.both(func(s storage.Store) {
				if v := stat(t, s, "/f").Version; v != "" {
					if was, ok := seen[v]; ok && was != content {
						t.Fatalf("version %q stood for %q and stands for %q", v, was, content)
					}
					seen[v] = content
				}
			})
		}
	}
	v := version(t, p.a, "/f")
	if again := version(t, p.b, "/f"); v != again {
		t.Errorf("one process says version %q, the other %q", v, again)
	}
	_, info, err := storage.Read(t.Context(), p.b, "/f", 10)
	if err != nil || info.Version != v {
		t.Errorf("Read says version %q, %v; Stat says %q", info.Version, err, v)
	}
}

func testIfAbsent(t *testing.T, p pair) {
	c := storage.Change{Key: "/r/f", Content: []byte("first"), If: storage.IfAbsent()}
	apply(t, p.a, storage.Stage{c})
	c.Content = []byte("second")
	p.both(func(s storage.Store) {
		wantError(t, "put where something is", s.Apply(t.Context(), nil, storage.Stage{c}), storage.ErrConflict)
	})
	p.wantContent(t, "/r/f", "first")
	remove(t, p.b, "/r/f")
	apply(t, p.a, storage.Stage{c})
	p.wantContent(t, "/r/f", "second")
}

func testIfVersion(t *testing.T, p pair) {
	put(t, p.a, "/r/f", "one")
	v := version(t, p.b, "/r/f")
	change := func(content string) storage.Stage {
		return storage.Stage{{Key: "/r/f", Content: []byte(content), If: storage.IfVersion(v)}}
	}
	apply(t, p.b, change("two"))
	p.wantContent(t, "/r/f", "two")
	p.both(func(s storage.Store) {
		wantError(t, "put over another version", s.Apply(t.Context(), nil, change("three")), storage.ErrConflict)
	})
	remove(t, p.a, "/r/f")
	wantError(t, "put over nothing", p.b.Apply(t.Context(), nil, change("three")), storage.ErrConflict)
	p.wantAbsent(t, "/r/f")
}

func testDeleteIfVersion(t *testing.T, p pair) {
	put(t, p.a, "/r/f", "one")
	old := version(t, p.a, "/r/f")
	put(t, p.a, "/r/f", "two")
	stage := func(v string) storage.Stage {
		return storage.Stage{{Key: "/r/f", Delete: true, If: storage.IfVersion(v)}}
	}
	wantError(t, "deletion of another version", p.b.Apply(t.Context(), nil, stage(old)), storage.ErrConflict)
	p.wantContent(t, "/r/f", "two")
	v := version(t, p.b, "/r/f")
	apply(t, p.b, stage(v))
	p.wantAbsent(t, "/r/f")
	wantError(t, "deletion of nothing", p.a.Apply(t.Context(), nil, stage(v)), storage.ErrConflict)
}

func testConflictEndsApply(t *testing.T, p pair) {
	put(t, p.a, "/there", "x")
	err := p.a.Apply(t.Context(), nil,
		storage.Stage{{Key: "/first", Content: []byte("x")}},
		storage.Stage{{Key: "/there", Content: []byte("y"), If: storage.IfAbsent()}},
		storage.Stage{{Key: "/later", Content: []byte("x")}})
	wantError(t, "Apply", err, storage.ErrConflict)
	p.wantContent(t, "/there", "x")
	p.wantAbsent(t, "/later")
}

func testIfAbsentHasOneWinner(t *testing.T, p pair) {
	for round := range 10 {
		key := fmt.Sprintf("/tags/%d/link", round)
		var winners atomic.Int32
		var won atomic.Value
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				content := strconv.Itoa(i)
				err := p.nth(i).Apply(t.Context(), nil, storage.Stage{{Key: key, Content: []byte(content), If: storage.IfAbsent()}})
				switch {
				case err == nil:
					winners.Add(1)
					won.Store(content)
				case !errors.Is(err, storage.ErrConflict):
					t.Errorf("Apply: %v", err)
				}
			})
		}
		all.Wait()
		if n := winners.Load(); n != 1 {
			t.Fatalf("%d of 8 put an object where there was none", n)
		}
		p.wantContent(t, key, won.Load().(string))
	}
}

// increment adds one to the number at key, by its version.
func increment(s storage.Store, key string) error {
	content, info, err := storage.Read(background, s, key, 100)
	if err != nil {
		return err
	}
	if info.Version == "" {
		return storage.ErrConflict // the store cannot tell it yet
	}
	n, err := strconv.Atoi(string(content))
	if err != nil {
		return err
	}
	return s.Apply(background, nil, storage.Stage{{Key: key, Content: []byte(strconv.Itoa(n + 1)), If: storage.IfVersion(info.Version)}})
}

func testIfVersionLosesNoChange(t *testing.T, p pair) {
	const workers, each = 4, 8
	put(t, p.a, "/n", "0")
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			for range each {
				err := storage.ErrConflict
				for errors.Is(err, storage.ErrConflict) {
					err = increment(p.nth(i), "/n")
				}
				if err != nil {
					t.Errorf("increment: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	p.wantContent(t, "/n", strconv.Itoa(workers*each))
}

// A deletion by version never takes what was put since.
func testDeleteIfVersionLosesNoChange(t *testing.T, p pair) {
	for i := range 30 {
		put(t, p.a, "/tag", "old")
		v := version(t, p.b, "/tag")
		var both sync.WaitGroup
		both.Go(func() {
			if err := p.nth(i).Apply(t.Context(), nil, storage.Stage{{Key: "/tag", Content: []byte("new")}}); err != nil {
				t.Errorf("Apply: %v", err)
			}
		})
		both.Go(func() {
			err := p.b.Apply(t.Context(), nil, storage.Stage{{Key: "/tag", Delete: true, If: storage.IfVersion(v)}})
			if err != nil && !errors.Is(err, storage.ErrConflict) {
				t.Errorf("Apply: %v", err)
			}
		})
		both.Wait()
		p.wantContent(t, "/tag", "new")
	}
}
