package object

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/storage"
)

// leases returns the keys of the leases in the bucket, sorted.
func (m *memory) leases() []string {
	return slices.Sorted(slices.Values(m.below("root/" + leasePrefix)))
}

// rely has a store make an attempt that relies on an object.
func rely(t *testing.T, s *Store, key string) (storage.Info, error) {
	t.Helper()
	return storage.Rely(t.Context(), s, s.Begin(), key)
}

// A collection waits for the attempts of processes that have a lease: not for one that has stopped, nor long after one was
// killed or had its last request.
func TestCollect_WaitsForLeases(t *testing.T) {
	const long = defaultFresh + storage.AttemptLimit
	for name, tt := range map[string]struct {
		use   func(t *testing.T, m *memory, s *Store)
		waits bool
	}{
		"none":    {func(*testing.T, *memory, *Store) {}, false},
		"serving": {func(*testing.T, *memory, *Store) {}, true},
		"stopped": {func(_ *testing.T, _ *memory, s *Store) { _ = s.Close() }, false},
		"stopped while a change was in progress": {func(t *testing.T, m *memory, s *Store) {
			m.failWith(func(method, _ string) error {
				if method == "PUT" {
					time.Sleep(time.Second)
				}
				return nil
			})
			go func() { _ = s.Apply(t.Context(), nil, storage.Stage{{Key: "/r/slow", Content: []byte("x")}}) }()
			time.Sleep(time.Millisecond)
			_ = s.Close()
			time.Sleep(time.Second)
			m.failWith(nil)
		}, true},
		"stopped after a request without an answer": {func(t *testing.T, m *memory, s *Store) {
			m.failWith(func(method, key string) error {
				if method == "PUT" && key == "root/r/lost" {
					return &Trouble{Err: errors.New("connection reset")}
				}
				return nil
			})
			if err := s.Apply(t.Context(), nil, storage.Stage{{Key: "/r/lost", Content: []byte("x")}}); err == nil {
				t.Error("the put succeeds")
			}
			m.failWith(nil)
			_ = s.Close()
		}, true},
		"killed":            {func(*testing.T, *memory, *Store) { time.Sleep(leaseLife) }, true},
		"killed long ago":   {func(*testing.T, *memory, *Store) { time.Sleep(leaseLife + 30*time.Second) }, false},
		"idle for long":     {func(*testing.T, *memory, *Store) { time.Sleep(time.Hour) }, false},
		"without collected": {func(*testing.T, *memory, *Store) {}, false},
	} {
		for _, versioned := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := newMemory()
					m.limits.Versioned, m.limits.ConditionalDelete = versioned, versioned
					a, b := m.store(t), m.store(t)
					b.o.Collected = func(key string) bool { return strings.HasPrefix(key, "/r/") }
					put(t, a, "/r/link")
					_ = a.Close()
					time.Sleep(time.Hour)
					switch name {
					case "none":
					case "without collected":
						put(t, b, "/other")
					default:
						put(t, b, "/r/new")
					}
					tt.use(t, m, b)
					c := m.store(t)
					begun := time.Now()
					run := collect(t, c)
					infos := listed(t, c, "/r")[:1]
					if kept, err := run.Delete(t.Context(), infos); err != nil || len(kept) > 0 {
						t.Errorf("kept %v, %v", keys(kept), err)
					}
					run.Close()
					if took := time.Since(begun); took > long != tt.waits || !tt.waits && took > 5*time.Second {
						t.Errorf("a collection takes %v", took)
					}
				})
			})
		}
	}
}

// Leases of processes that died are deleted, and a process that goes on takes another one.
func TestLease_Expires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a, b := m.store(t), m.store(t)
		put(t, a, "/r/a")
		put(t, b, "/r/b")
		synctest.Wait()
		first := m.leases()
		for range 10 { // it is renewed while it is used
			time.Sleep(leaseLife / 3)
			put(t, a, "/r/a")
		}
		synctest.Wait()
		if got := m.leases(); len(first) != 2 || len(got) != 2 || got[0] != first[0] || got[1] != first[1] {
			t.Errorf("leases %q, then %q", first, got)
		}
		time.Sleep(leaseLife + m.limits.MaxLate + time.Second) // what it renewed late has taken effect
		put(t, a, "/r/a")
		synctest.Wait()
		if got := m.leases(); len(got) != 2 || got[0] == first[0] && got[1] == first[1] {
			t.Errorf("leases %q, after the end of one %q", first, got)
		}
		time.Sleep(3 * leaseLife)
		collect(t, a).Close()
		if got := m.leases(); len(got) > 0 {
			t.Errorf("left: %q", got)
		}
	})
}

// A process that was frozen until its lease was over changes nothing by an attempt from before, and a collection that didn't
// wait for it deletes nothing that its next attempt relies on.
func TestCollect_BesideAFrozenProcess(t *testing.T) {
	for _, versioned := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			m.limits.Versioned, m.limits.ConditionalDelete = versioned, versioned
			a, b, other := m.store(t), m.store(t), m.store(t)
			put(t, b, "/r/link")
			before := b.Begin()
			if _, err := storage.Rely(t.Context(), b, before, "/r/link"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			put(t, other, "/r/link") // dated now
			_ = other.Close()
			begun := time.Now()
			c := collect(t, a)
			defer c.Close()
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("it starts after %v", took)
			}
			infos := listed(t, a, "/r")
			if !infos[0].Modified.Before(c.Start()) {
				time.Sleep(time.Second)
			}
			if err := b.Apply(t.Context(), before, storage.Stage{{Key: "/r/manifest", Content: []byte("x")}}); !errors.Is(err, storage.ErrExpired) {
				t.Errorf("an attempt from before: %v", err)
			}
			time.Sleep(time.Second)
			if _, err := rely(t, b, "/r/link"); err != nil { // seconds old
				t.Fatal(err)
			}
			if info, err := b.Stat(t.Context(), "/r/link"); err != nil || info.Modified.Before(c.Start()) || info.Modified.Equal(infos[0].Modified) {
				t.Errorf("relied on what is dated %v, the collection started %v, %v", info.Modified, c.Start(), err)
			}
			if kept, err := c.Delete(t.Context(), infos); err != nil || len(kept) != 1 {
				t.Errorf("kept %v, %v", keys(kept), err)
			}
		})
	}
}

// What was read of the lists before the process had a lease doesn't count: the collection didn't wait for it.
func TestLease_ListsAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a, b := m.store(t), m.store(t)
		put(t, a, "/r/link")
		_ = a.Close()
		a = m.store(t)
		time.Sleep(time.Hour)
		attempt := b.Begin() // reads the lists
		time.Sleep(time.Second)
		withdraw, err := a.lists.publish(t.Context(), listed(t, a, "/r"))
		if err != nil {
			t.Fatal(err)
		}
		defer withdraw()
		if info, err := storage.Rely(t.Context(), b, attempt, "/r/link"); !errors.Is(err, storage.ErrTemporary) {
			t.Errorf("relied on %+v, %v", info, err)
		}
	})
}

// Where the clock of answers is ahead of the dates of objects, a process that takes its lease when a collection has looked for leases still
// writes nothing that is dated before the collection, and a collection sees the lease of one that works.
func TestCollect_ClockAheadOfDates(t *testing.T) {
	for _, ahead := range []time.Duration{5 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			m.ahead = ahead
			a, b := m.store(t), m.store(t)
			c := collect(t, a)
			put(t, b, "/r/new")
			if info := listed(t, b, "/r")[0]; info.Modified.Before(c.Start()) {
				t.Errorf("%v: dated %v, and the collection started %v", ahead, info.Modified, c.Start())
			}
			c.Close()
			begun := time.Now()
			collect(t, a).Close()
			if took := time.Since(begun); took < defaultFresh {
				t.Errorf("%v: a collection waits %v beside a process that writes", ahead, took)
			}
		})
	}
}

// Objects have dates of whole seconds, and those that are put in the second in which a lease was taken aren't renewed for it.
func TestLease_InTheSameSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.ahead = 700 * time.Millisecond // answers have a finer clock
		s := m.store(t)
		put(t, s, "/r/link")
		renewals := 0
		m.failWith(func(method, key string) error {
			if key == "root/r/link" && method != "HEAD" {
				renewals++
			}
			return nil
		})
		if info, err := rely(t, s, "/r/link"); err != nil || renewals > 0 {
			t.Errorf("%+v, %v, %d renewals", info, err, renewals)
		}
	})
}

// A virtual machine that was paused may not know: the store's clock tells.
func TestLease_OfAPausedMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := m.store(t)
		put(t, s, "/r/a")
		first := m.leases()[0]
		m.ahead = time.Hour
		put(t, s, "/r/a")
		if got := m.leases(); !slices.ContainsFunc(got, func(key string) bool { return key != first }) {
			t.Errorf("leases %q", got)
		}
	})
}

// A lease that can't be looked up is not left to hold collections up, and one that can't be renewed isn't tried for each request.
func TestLease_Fails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := m.store(t)
		tries := 0
		failing := func(method string) func(string, string) error {
			return func(of, key string) error {
				if of == method && strings.HasPrefix(key, "root/"+leasePrefix) {
					tries++
					return storage.ErrDenied
				}
				return nil
			}
		}
		m.failWith(failing("LIST"))
		for range 3 {
			if err := s.Apply(t.Context(), nil, storage.Stage{{Key: "/r/a", Content: []byte("x")}}); !errors.Is(err, storage.ErrDenied) {
				t.Error(err)
			}
		}
		if got := m.leases(); len(got) > 0 {
			t.Errorf("leases %q", got)
		}
		m.failWith(nil)
		put(t, s, "/r/a")
		m.failWith(failing("PUT"))
		time.Sleep(leaseLife * 2 / 3)
		tries = 0
		for range 100 {
			put(t, s, "/r/a")
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
		}
		if tries > 3 {
			t.Errorf("%d renewals in ten seconds", tries)
		}
	})
}

// A process that can't write describes what it finds, and may not rely on it.
func TestLease_Refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := m.store(t)
		put(t, s, "/r/link")
		time.Sleep(time.Hour)
		for _, refused := range []error{storage.ErrDenied, storage.ErrNoSpace} {
			m.failWith(func(method, _ string) error {
				if method == "PUT" {
					return refused
				}
				return nil
			})
			attempt := s.Begin()
			if info, err := storage.Rely(t.Context(), s, attempt, "/r/link"); err != nil || info.Size != 1 {
				t.Errorf("%v: %+v, %v", refused, info, err)
			}
			if err := attempt.Denied(); !errors.Is(err, refused) {
				t.Errorf("%v: denied is %v", refused, err)
			}
			if err := s.Apply(t.Context(), attempt, storage.Stage{{Key: "/r/link", Renew: true}}); !errors.Is(err, refused) {
				t.Errorf("%v: a change returns %v", refused, err)
			}
		}
	})
}
