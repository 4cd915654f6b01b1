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

// The version is another when the content is, whatever the size and the clock.
func testVersion(t *testing.T, p pair) {
	seen := map[string]string{}
	for i := range 20 {
		content := strconv.Itoa(100 + i)
		put(t, p.nth(i).Store, "/f", content)
		for range 3 {
			p.both(func(in Instance) {
				if v := stat(t, in.Store, "/f").Version; v != "" {
					if was, ok := seen[v]; ok && was != content {
						t.Fatalf("version %q stood for %q and stands for %q", v, was, content)
					}
					seen[v] = content
				}
			})
		}
	}
	v := version(t, p.a.Store, "/f")
	if again := version(t, p.b.Store, "/f"); v != again {
		t.Errorf("one process says version %q, the other %q", v, again)
	}
	_, info, err := storage.Read(t.Context(), p.b.Store, "/f", 10)
	if err != nil || info.Version != v {
		t.Errorf("Read says version %q, %v; Stat says %q", info.Version, err, v)
	}
}

func testIfAbsent(t *testing.T, p pair) {
	c := storage.Change{Key: "/r/f", Content: []byte("first"), If: storage.IfAbsent()}
	apply(t, p.a.Store, storage.Stage{c})
	c.Content = []byte("second")
	p.both(func(i Instance) {
		wantError(t, "put where something is", i.Store.Apply(t.Context(), nil, storage.Stage{c}), storage.ErrConflict)
	})
	p.wantContent(t, "/r/f", "first")
	remove(t, p.b.Store, "/r/f")
	apply(t, p.a.Store, storage.Stage{c})
	p.wantContent(t, "/r/f", "second")
}

func testIfVersion(t *testing.T, p pair) {
	put(t, p.a.Store, "/r/f", "one")
	v := version(t, p.b.Store, "/r/f")
	change := func(content string) storage.Stage {
		return storage.Stage{{Key: "/r/f", Content: []byte(content), If: storage.IfVersion(v)}}
	}
	apply(t, p.b.Store, change("two"))
	p.wantContent(t, "/r/f", "two")
	p.both(func(i Instance) {
		wantError(t, "put over another version", i.Store.Apply(t.Context(), nil, change("three")), storage.ErrConflict)
	})
	remove(t, p.a.Store, "/r/f")
	wantError(t, "put over nothing", p.b.Store.Apply(t.Context(), nil, change("three")), storage.ErrConflict)
	p.wantAbsent(t, "/r/f")
}

func testDeleteIfVersion(t *testing.T, p pair) {
	put(t, p.a.Store, "/r/f", "one")
	old := version(t, p.a.Store, "/r/f")
	put(t, p.a.Store, "/r/f", "two")
	stage := func(v string) storage.Stage {
		return storage.Stage{{Key: "/r/f", Delete: true, If: storage.IfVersion(v)}}
	}
	wantError(t, "deletion of another version", p.b.Store.Apply(t.Context(), nil, stage(old)), storage.ErrConflict)
	p.wantContent(t, "/r/f", "two")
	v := version(t, p.b.Store, "/r/f")
	apply(t, p.b.Store, stage(v))
	p.wantAbsent(t, "/r/f")
	wantError(t, "deletion of nothing", p.a.Store.Apply(t.Context(), nil, stage(v)), storage.ErrConflict)
}

func testDeleteIfAbsent(t *testing.T, p pair) {
	stage := storage.Stage{{Key: "/r/f", Delete: true, If: storage.IfAbsent()}}
	p.both(func(i Instance) { apply(t, i.Store, stage) })
	put(t, p.a.Store, "/r/f", "there")
	p.both(func(i Instance) {
		wantError(t, "deletion of what shall be absent", i.Store.Apply(t.Context(), nil, stage), storage.ErrConflict)
	})
	p.wantContent(t, "/r/f", "there")
}

func testConflictEndsApply(t *testing.T, p pair) {
	put(t, p.a.Store, "/there", "x")
	err := p.a.Store.Apply(t.Context(), nil,
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
				err := p.nth(i).Store.Apply(t.Context(), nil, storage.Stage{{Key: key, Content: []byte(content), If: storage.IfAbsent()}})
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
func increment(i Instance, key string) error {
	content, info, err := storage.Read(background, i.Store, key, 100)
	if err != nil {
		return err
	}
	if info.Version == "" {
		return storage.ErrConflict // it cannot be told yet
	}
	n, err := strconv.Atoi(string(content))
	if err != nil {
		return err
	}
	return i.Store.Apply(background, nil, storage.Stage{{Key: key, Content: []byte(strconv.Itoa(n + 1)), If: storage.IfVersion(info.Version)}})
}

func testIfVersionLosesNoChange(t *testing.T, p pair) {
	const workers, each = 4, 8
	put(t, p.a.Store, "/n", "0")
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
		put(t, p.a.Store, "/tag", "old")
		v := version(t, p.b.Store, "/tag")
		var both sync.WaitGroup
		both.Go(func() {
			if err := p.nth(i).Store.Apply(t.Context(), nil, storage.Stage{{Key: "/tag", Content: []byte("new")}}); err != nil {
				t.Errorf("Apply: %v", err)
			}
		})
		both.Go(func() {
			err := p.b.Store.Apply(t.Context(), nil, storage.Stage{{Key: "/tag", Delete: true, If: storage.IfVersion(v)}})
			if err != nil && !errors.Is(err, storage.ErrConflict) {
				t.Errorf("Apply: %v", err)
			}
		})
		both.Wait()
		p.wantContent(t, "/tag", "new")
	}
}
