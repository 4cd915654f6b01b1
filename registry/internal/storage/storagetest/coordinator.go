package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/internal/storage"
)

func begin(t *testing.T, i Instance) storage.Section {
	t.Helper()
	s, err := i.Coordinator.Begin(t.Context())
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	return s
}

func lock(t *testing.T, i Instance, name string) storage.Lease {
	t.Helper()
	l, err := i.Coordinator.Lock(t.Context(), name)
	if err != nil {
		t.Fatalf("Lock(%s): %v", name, err)
	}
	return l
}

// publish returns when all sections see it.
func publish(t *testing.T, i Instance, p storage.Pending) {
	t.Helper()
	if err := i.Coordinator.Publish(t.Context(), p); err != nil {
		t.Fatalf("Publish: %v", err)
	}
	if err := i.Coordinator.Barrier(t.Context()); err != nil {
		t.Fatalf("Barrier: %v", err)
	}
}

func testBarrier(t *testing.T, p pair) {
	if err := p.a.Coordinator.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	for round := range 4 {
		old, younger := begin(t, p.nth(round)), begin(t, p.nth(round/2))
		passed := make(chan error, 1)
		go func() { passed <- p.b.Coordinator.Barrier(background) }()
		select {
		case err := <-passed:
			if d := old.Deadline(); d.IsZero() || time.Now().Before(d) {
				t.Fatalf("round %d: the barrier was passed (%v) while a section lasts", round, err)
			}
		case <-time.After(20 * time.Millisecond):
		}
		late := begin(t, p.nth(round+1)) // is not held up
		old.End()
		younger.End()
		// When exactly the barrier counts is not seen from here. So a section that began
		// later is open all the time, each longer than the one before.
		for hold, limit := 10*time.Millisecond, time.Now().Add(patience); ; hold *= 2 {
			var err error
			select {
			case err = <-passed:
			case <-time.After(hold):
				if time.Now().After(limit) {
					t.Fatalf("round %d: the barrier waits for nobody, or for a section that began later", round)
				}
				next := begin(t, p.nth(round+1))
				late.End()
				late = next
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		late.End()
	}
}

func testBarrierGivesUp(t *testing.T, p pair) {
	defer begin(t, p.a).End()
	p.both(func(i Instance) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		wantError(t, "Barrier", i.Coordinator.Barrier(ctx), context.DeadlineExceeded)
	})
}

// Sections that follow each other without a gap do not keep a barrier waiting.
func testBarrierIsNotStarved(t *testing.T, p pair) {
	for i := range 4 {
		defer repeat(t, func(int) error {
			s, err := p.nth(i).Coordinator.Begin(background)
			if err == nil {
				time.Sleep(time.Millisecond)
				s.End()
			}
			return err
		})()
	}
	for i := range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if err := p.nth(i).Coordinator.Barrier(ctx); err != nil {
			t.Error(err)
		}
		cancel()
	}
}

func testSectionEndsTwice(t *testing.T, p pair) {
	first, second := begin(t, p.a), begin(t, p.a)
	first.End()
	first.End()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	wantError(t, "Barrier beside another section", p.b.Coordinator.Barrier(ctx), context.DeadlineExceeded)
	second.End()
}

func testPublish(t *testing.T, p pair) {
	defer lock(t, p.a, storage.CollectorLock).Release()
	look := func(run string, listed ...string) {
		t.Helper()
		p.both(func(i Instance) {
			s := begin(t, i)
			defer s.End()
			if s.Run() != run {
				t.Errorf("the run is %q, want %q", s.Run(), run)
			}
			for _, key := range listed {
				if !s.Listed(key) || !s.Listed("/other", key) {
					t.Errorf("%s is not listed", key)
				}
			}
			wrong := 0
			for n := range 1000 {
				if s.Listed(fmt.Sprintf("/other/%d", n)) {
					wrong++
				}
			}
			if wrong > 5 || wrong > 0 && len(listed) == 0 || s.Listed() {
				t.Errorf("%d of 1,000 keys are listed that should not be", wrong)
			}
		})
	}
	look("")
	publish(t, p.a, storage.Pending{Run: "r1"})
	look("r1")
	keys := []string{"/a/b/link", "/a/c/link"}
	publish(t, p.a, storage.Pending{Run: "r1", Keys: keys})
	keys[0], keys[1] = "/x", "/y" // the list is a copy
	look("r1", "/a/b/link", "/a/c/link")
	publish(t, p.a, storage.Pending{Run: "r1", Keys: []string{"/z"}})
	look("r1", "/z")
	publish(t, p.a, storage.Pending{Run: "r1"})
	look("r1")
	publish(t, p.a, storage.Pending{})
	look("")
}

func testPublishMany(t *testing.T, p pair) {
	defer lock(t, p.a, storage.CollectorLock).Release()
	keys := make([]string, storage.MaxPending)
	for i := range keys {
		keys[i] = fmt.Sprintf("/docker/registry/v2/repositories/some/repository/_layers/sha256/%064x/link", i)
	}
	err := p.a.Coordinator.Publish(t.Context(), storage.Pending{Run: "r", Keys: keys})
	if err == nil {
		err = p.a.Coordinator.Barrier(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	s := begin(t, p.b)
	for _, key := range keys {
		if !s.Listed(key) {
			t.Fatalf("%s is not listed", key)
		}
	}
	s.End()
	publish(t, p.a, storage.Pending{})
}

// A collector deletes what it listed behind a barrier; a writer to whom it was not
// listed finds it until its section ends.
func testListedIsNeverMissing(t *testing.T, p pair) {
	const key = "/r/link"
	put(t, p.a.Store, key, "x")
	var looks, waits atomic.Int64
	for i := range 3 {
		defer repeat(t, func(int) error {
			in := p.nth(i)
			s, err := in.Coordinator.Begin(background)
			if err != nil {
				return err
			}
			defer s.End()
			if s.Listed(key) {
				waits.Add(1)
				time.Sleep(time.Millisecond)
				return nil
			}
			for range 2 {
				_, err := in.Store.Stat(background, key)
				if d := s.Deadline(); !d.IsZero() && time.Now().After(d) {
					return nil // whatever it saw
				}
				if err != nil {
					return fmt.Errorf("not listed, and gone before the section ended: %w", err)
				}
				looks.Add(1)
				time.Sleep(time.Millisecond)
			}
			return nil
		})()
	}
	defer lock(t, p.a, storage.CollectorLock).Release()
	for range 20 {
		publish(t, p.a, storage.Pending{Run: "r", Keys: []string{key}})
		remove(t, p.a.Store, key)
		time.Sleep(time.Millisecond)
		put(t, p.a.Store, key, "x")
		publish(t, p.a, storage.Pending{})
		time.Sleep(5 * time.Millisecond)
	}
	eventually(t, "writers looked, and waited", func() bool { return looks.Load() > 0 && waits.Load() > 0 })
}

func testLock(t *testing.T, p pair) {
	l := lock(t, p.a, "collector")
	p.both(func(i Instance) {
		_, err := i.Coordinator.Lock(t.Context(), "collector")
		wantError(t, "Lock", err, storage.ErrBusy)
	})
	lock(t, p.b, "scheduler").Release() // another name
	select {
	case <-l.Lost():
		t.Error("the lock is lost while it is held")
	default:
	}
	l.Release()
	select {
	case <-l.Lost():
	case <-time.After(patience):
		t.Error("a lock that was released is held")
	}
	second := lock(t, p.b, "collector")
	l.Release() // does nothing
	_, err := p.a.Coordinator.Lock(t.Context(), "collector")
	wantError(t, "Lock", err, storage.ErrBusy)
	second.Release()
}

func testLockHasOneHolder(t *testing.T, p pair) {
	var holders, most atomic.Int32
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			for n := 0; n < 5; {
				l, err := p.nth(i).Coordinator.Lock(background, "job")
				if errors.Is(err, storage.ErrBusy) {
					time.Sleep(time.Millisecond)
					continue
				}
				if err != nil {
					t.Errorf("Lock: %v", err)
					return
				}
				n++
				most.Store(max(most.Load(), holders.Add(1)))
				time.Sleep(time.Millisecond)
				holders.Add(-1)
				l.Release()
			}
		})
	}
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d held the lock at once", most.Load())
	}
}

func testExclusive(t *testing.T, p pair) {
	join := func(i Instance) storage.Lease {
		t.Helper()
		l, err := i.Coordinator.Join(t.Context())
		if err != nil {
			t.Fatalf("Join: %v", err)
		}
		return l
	}
	first, second := join(p.a), join(p.b)
	for _, l := range []storage.Lease{first, second} {
		p.both(func(i Instance) {
			_, err := i.Coordinator.Exclusive(t.Context())
			wantError(t, "Exclusive beside a member", err, storage.ErrBusy)
		})
		l.Release()
	}
	exclusive, err := p.b.Coordinator.Exclusive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.a.Coordinator.Exclusive(t.Context())
	wantError(t, "Exclusive beside Exclusive", err, storage.ErrBusy)
	if exclusive.Wanted() {
		t.Error("wanted, and nobody waits")
	}
	joined := make(chan error, 1)
	go func() {
		l, err := p.a.Coordinator.Join(background)
		if err == nil {
			l.Release()
		}
		joined <- err
	}()
	eventually(t, "who is exclusive hears that somebody waits", exclusive.Wanted)
	select {
	case err := <-joined:
		t.Errorf("somebody joined (%v) beside one who is exclusive", err)
	default:
	}
	exclusive.Release()
	if err := <-joined; err != nil {
		t.Errorf("Join: %v", err)
	}
	if exclusive, err = p.a.Coordinator.Exclusive(t.Context()); err != nil {
		t.Fatalf("Exclusive after all have left: %v", err)
	}
	exclusive.Release()
}

func testJoinGivesUp(t *testing.T, p pair) {
	exclusive, err := p.a.Coordinator.Exclusive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = p.b.Coordinator.Join(ctx)
	wantError(t, "Join", err, storage.ErrBusy)
	exclusive.Release()
	l, err := p.b.Coordinator.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.Release()
}
