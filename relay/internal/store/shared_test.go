package store

import (
	"errors"
	"testing"
	"time"

	"slipway/relay/internal/post"
)

func testNotifications_ReachTheOtherRelay(t *testing.T) {
	a, b := relays(t)
	if !acquire(t, a, time.Hour) {
		t.Fatal("no lease")
	}
	x := entry(1, "x")
	accept(t, b, x)
	for told := false; !told; {
		receives(t, "a change in the room", a.Changes())
		changes, _ := a.TakeChanges()
		for _, c := range changes {
			told = told || c.Room == 1 || c.Room == 0
		}
		told = told || t.Failed()
	}
	final, end := b.Watch(x.Entry.ID)
	defer end()
	a.Report(NewOutcome(x.Entry, post.Sent{EventID: "$1"}, 1))
	receives(t, "the message is final", final)
}

func testAccounts_ChangedByAnother_AreStale(t *testing.T) {
	a, b := relays(t)
	for _, s := range []*Store{a, b} {
		n, err := s.Revision(ctx)
		if err != nil {
			t.Fatal(err)
		}
		s.Know(n)
	}
	rename := func(s *Store, name string) error {
		return s.Update(ctx, func(tx *Tx) error { return tx.SaveUser(&User{ID: 1, Name: name}) })
	}
	if err := errors.Join(rename(a, "one"), rename(a, "two")); err != nil {
		t.Fatal(err)
	}
	if err := rename(b, "three"); !errors.Is(err, ErrStale) {
		t.Errorf("a change of what another relay has changed: %v", err)
	}
	n, err := b.Revision(ctx)
	if err != nil || n == b.Known() || n != a.Known() {
		t.Errorf("revision %d, known %d and %d, %v", n, a.Known(), b.Known(), err)
	}
	b.Know(n)
	if err := rename(b, "three"); err != nil {
		t.Error(err)
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

// A change that failed says nothing about what another relay has changed since.
func testAccounts_ChangedByAnotherAfterAFailure_AreStale(t *testing.T) {
	a, b := relays(t)
	n, err := a.Revision(ctx)
	if err != nil {
		t.Fatal(err)
	}
	a.Know(n)
	failure := errors.New("no")
	save := func(s *Store, err error) error {
		return s.Update(ctx, func(tx *Tx) error { return errors.Join(tx.SaveUser(&User{ID: 1, Name: "u"}), err) })
	}
	if err := save(a, failure); !errors.Is(err, failure) {
		t.Fatal(err)
	}
	if err := save(b, nil); err != nil {
		t.Fatal(err)
	}
	if err := save(a, nil); !errors.Is(err, ErrStale) {
		t.Errorf("a change of what another relay has changed: %v", err)
	}
}
