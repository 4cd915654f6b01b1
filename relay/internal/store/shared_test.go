package store

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway/relay/internal/post"
)

// told receives from its channels when the listener is called for room 1.
type told struct{ changed, failed chan struct{} }

func listen(s *Store) told {
	t := told{make(chan struct{}, 1), make(chan struct{}, 1)}
	s.Listen(t)
	return t
}

// Changed implements [Listener].
func (t told) Changed(c Change) {
	if c.Room <= 1 {
		hint(t.changed)
	}
}

// NotStored implements [Listener].
func (t told) NotStored(error) { hint(t.failed) }

func (told) InFlight(int64, int64) (int64, string) { return 0, "" }

func hint(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func testNotifications_ReachTheOtherRelay(t *testing.T) {
	a, b := relays(t)
	if !acquire(t, a, time.Hour) {
		t.Fatal("no lease")
	}
	told := listen(a)
	x := entry(1, "x")
	insert(t, b, x)
	receives(t, "a change in the room", told.changed)
	final, end := b.Await(Subject(x.Entry.ID))
	defer end()
	a.Record(NewOutcome(x.Entry, post.Sent{EventID: "$1"}, 1))
	receives(t, "the message is final", final)
}

// Each of two administrators is removed at another relay, at the same time, and nobody has to try again.
func testAdministrators_TwoRelaysRemoveEachOther_OneStays(t *testing.T) {
	a, b := relays(t)
	for round := range 20 {
		var all [2]User
		update(t, a, func(tx *Tx) error {
			for i := range all {
				all[i] = User{Name: fmt.Sprint(round, i), IsAdmin: true}
				if err := tx.SaveUser(&all[i]); err != nil {
					return err
				}
			}
			return nil
		})
		var errs [2]error
		var wg sync.WaitGroup
		for i, s := range []*Store{a, b} {
			wg.Go(func() {
				errs[i] = s.Update(ctx, func(tx *Tx) error {
					heir, err := tx.OtherAdmin(all[i].ID)
					if err != nil {
						return err
					}
					return tx.DeleteUser(all[i].ID, heir)
				})
			})
		}
		wg.Wait()
		if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs[:]...), ErrLastAdmin) {
			t.Fatalf("round %d: %v", round, errs)
		}
		update(t, a, func(tx *Tx) error { return tx.exec(`DELETE FROM users WHERE is_admin`) })
	}
}

// Changes at two relays each lock what the other needs next: one of them is made again, and its caller doesn't notice.
func testChanges_LockedByEachOther_AreMade(t *testing.T) {
	a, b := relays(t)
	other := User{Name: "other"}
	update(t, a, func(tx *Tx) error { return tx.SaveUser(&other) })
	var locked, done sync.WaitGroup
	var runs atomic.Int64
	change := func(s *Store, first, second int64) {
		once := sync.OnceFunc(func() { locked.Done(); locked.Wait() })
		err := s.Update(ctx, func(tx *Tx) error {
			runs.Add(1)
			if _, err := tx.User(first); err != nil {
				return err
			}
			once()
			_, err := tx.User(second)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	locked.Add(2)
	done.Go(func() { change(a, 1, other.ID) })
	done.Go(func() { change(b, other.ID, 1) })
	done.Wait()
	if n := runs.Load(); n < 3 { // more if the one that is made again is quicker than the one that it held up
		t.Errorf("they ran %d times: none was made again", n)
	}
}

func testCount_TwoRelays_ShareTheirBuckets(t *testing.T) {
	a, b := relays(t)
	for i := range 10 {
		if wait, err := []*Store{a, b}[i%2].Count(ctx, "k", 1, 1, 10); wait != 0 || err != nil {
			t.Errorf("number %d has to wait %v, %v", i, wait, err)
		}
	}
	for _, s := range []*Store{a, b} {
		if wait, err := s.Count(ctx, "k", 1, 1, 10); wait <= 0 || wait > time.Minute || err != nil {
			t.Errorf("one too many: %v, %v", wait, err)
		}
	}
	if wait, err := a.Count(ctx, "k2", 11, 1, 10); wait <= 0 || err != nil {
		t.Errorf("more than there ever are: %v, %v", wait, err)
	}
	if err := a.GiveBack(ctx, "k", 1); err != nil {
		t.Fatal(err)
	}
	if wait, err := b.Count(ctx, "k", 1, 1, 10); wait != 0 || err != nil {
		t.Errorf("what was given back: %v, %v", wait, err)
	}
}
