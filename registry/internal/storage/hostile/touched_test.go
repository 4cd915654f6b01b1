package hostile

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"slipway/registry/internal/storage"
	store "slipway/registry/internal/storage/object"
)

// Touched finds each section that has touched the key since, in whatever process, and none
// that has touched another or was over before.
func TestTouched(t *testing.T) {
	touch := func(t *testing.T, by *Process, key string) storage.Section {
		t.Helper()
		s := begin(t, by)
		s.(interface{ Touch(key string) }).Touch(key)
		return s
	}
	for _, tt := range []struct {
		name  string
		lease time.Duration
		do    func(t *testing.T, self, other *Process)
		want  bool
	}{
		{"nobody", time.Minute, func(*testing.T, *Process, *Process) {}, false},
		{"another key", time.Minute, func(t *testing.T, self, other *Process) {
			touch(t, self, "/b").End()
			touch(t, other, "/b").End()
		}, false},
		{"this process", time.Minute, func(t *testing.T, self, _ *Process) { touch(t, self, "/a").End() }, true},
		{"another process", time.Minute, func(t *testing.T, _, other *Process) { touch(t, other, "/a").End() }, true},
		{"a process that has ended", time.Minute, func(t *testing.T, _, other *Process) {
			touch(t, other, "/a").End()
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"a process that has died", 300 * time.Millisecond, func(t *testing.T, _, other *Process) {
			touch(t, other, "/a")
			other.Kill()
		}, true},
		{"a process of an older build", time.Minute, func(t *testing.T, _, other *Process) {
			client := store.NewClient(other.requests, "root", other.requests.Limits(), store.Timing{})
			if _, err := client.Put(t.Context(), ".slipway/writers/old", []byte(`{"Owner":"old","Seen":1000,"Drained":1000}`), &store.Change{}); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"one that goes on meanwhile", time.Minute, func(t *testing.T, _, other *Process) {
			s := touch(t, other, "/a")
			go func() {
				time.Sleep(30 * time.Millisecond)
				s.End()
			}()
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := New(Options{Lease: tt.lease})
			self, other := b.Process(), b.Process()
			defer self.Close()
			defer other.Close()
			touch(t, self, "/a").End()
			time.Sleep(time.Millisecond)
			begun := time.Now()
			tt.do(t, self, other)
			got, err := self.Touched(t.Context(), "/a", begun)
			if err != nil {
				t.Fatal(err)
			}
			// After eight seconds nobody remembers.
			if got != tt.want && (tt.want || time.Since(begun) < 8*time.Second) {
				t.Errorf("Touched = %v", got)
			}
			if got, err := self.Touched(t.Context(), "/a", begun.Add(-time.Minute)); err != nil || !got {
				t.Errorf("since a minute ago: %v, %v; nobody can know", got, err)
			}
		})
	}
}

// Guards of one process at the same time keep others from all their keys, each until its own
// release at least, and from none once all are released.
func TestGuard_AtTheSameTime(t *testing.T) {
	b := New(Options{Lease: time.Minute})
	self, other := b.Process(), b.Process()
	defer self.Close()
	defer other.Close()
	guarded := func(key string) bool {
		s := begin(t, other)
		defer s.End()
		return s.(interface{ Guarded(keys ...string) bool }).Guarded(key)
	}
	begin(t, other).End()
	releases := make([]func(), 12)
	var all sync.WaitGroup
	for i := range releases {
		all.Go(func() {
			var err error
			if _, releases[i], err = self.leases.Guard(t.Context(), []string{fmt.Sprint("/tag", i)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	for i, release := range releases {
		if !guarded(fmt.Sprint("/tag", i)) {
			t.Errorf("tag %d is not guarded", i)
		}
		release()
	}
	for begun := time.Now(); guarded("/tag0"); time.Sleep(time.Millisecond) { // it looks at the state now and then
		if time.Since(begun) > time.Minute {
			t.Fatal("a guard stays")
		}
	}
}

// A process that takes one guard after the other does not keep another one from the same, and nothing
// stays of any of them.
func TestGuard_OneAfterTheOther_LeavesOthersTheirTurn(t *testing.T) {
	b := New(Options{Lease: time.Minute})
	busy, other := b.Process(), b.Process()
	defer other.Close()
	client := store.NewClient(other.requests, "root", other.requests.Limits(), store.Timing{})
	guards := func() int {
		var state struct{ Guards map[string]any }
		if _, err := client.GetJSON(t.Context(), ".slipway/state", &state); err != nil {
			t.Fatal(err)
		}
		return len(state.Guards)
	}
	once := func(p *Process) error {
		_, release, err := p.leases.Guard(t.Context(), []string{"/tag"})
		if err == nil {
			release()
		}
		return err
	}
	if err := once(busy); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for {
				if err := once(busy); err != nil {
					t.Error(err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for range 5 {
		if err := once(other); err != nil {
			t.Error(err)
		}
	}
	close(done)
	all.Wait()
	if err := busy.Close(); err != nil {
		t.Error(err)
	}
	for begun := time.Now(); guards() > 0; time.Sleep(time.Millisecond) { // other withdraws its own
		if time.Since(begun) > time.Minute {
			t.Fatalf("%d guards stay", guards())
		}
	}
}
