package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/relay/internal/post"
)

// TestGroupCommit accepts from many goroutines at once. Every message is there, once, under its own id, and who accepts one
// after the other gets rising ids.
func TestGroupCommit(t *testing.T) {
	s := fresh(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[int64]*Incoming{}
	together := map[*Tx]int{} // messages by their commit
	for g := range 80 {
		wg.Go(func() {
			last := int64(0)
			for i := range 25 {
				a := entry(int64(g%4), fmt.Sprintf("%d.%d", g, i))
				if g%8 == 0 {
					a.Relate = func(tx *Tx, a *Incoming) error {
						mu.Lock()
						together[tx]++
						mu.Unlock()
						return tx.Insert(&a.Entry)
					}
				}
				if err := s.Insert(ctx, a); err != nil {
					t.Error(err)
					return
				}
				if a.Entry.ID <= last {
					t.Errorf("id %d after %d", a.Entry.ID, last)
				}
				last = a.Entry.ID
				mu.Lock()
				got[last] = a
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(got) != 2000 {
		t.Fatalf("%d ids", len(got))
	}
	if slices.Max(slices.Collect(maps.Values(together))) < 2 {
		t.Error("no commit had more than one message")
	}
	for room := range int64(4) {
		entries := pending(t, s, room)
		if len(entries) != 500 {
			t.Fatalf("room %d: %d entries", room, len(entries))
		}
		for _, e := range entries {
			if want := got[e.ID].Entry; want.Body != e.Body || e.Txn != want.Txn {
				t.Fatalf("entry %+v, want %+v", e, want)
			}
		}
	}
}

// TestAcceptRepeatedInOneCommit: a request that is repeated before the first one is committed gets the id of that one.
func TestAcceptRepeatedInOneCommit(t *testing.T) {
	s := fresh(t)
	first, again, other := entry(1, "x"), entry(1, "x"), entry(1, "y")
	first.Key, again.Key, other.Key = &Key{"k", []byte("x")}, &Key{"k", []byte("x")}, &Key{"k", []byte("y")}
	insert(t, s, first, again, other)
	if first.Entry.ID == 0 || first.Replay || !again.Replay || again.Entry.ID != first.Entry.ID || !other.Conflict {
		t.Errorf("first %+v, repeated %+v, another one %+v", first, again, other)
	}
}

// TestAcceptAllOrNone: messages that are accepted together are stored together, also when they are more than one INSERT
// takes, and a key among them is known the second time.
func TestAcceptAllOrNone(t *testing.T) {
	s := fresh(t)
	batch := func() (all []*Incoming) {
		for i := range 3*maxRows + 1 {
			all = append(all, entry(1, fmt.Sprint(i)))
		}
		all[5].Key = &Key{Key: "k", Hash: []byte("h")}
		return all
	}
	first := batch()
	insert(t, s, first...)
	second := batch()
	second[7].Key = &Key{Key: "k", Hash: []byte("other")}
	if err := s.Insert(ctx, second...); err != nil || !second[5].Replay || second[5].Entry.ID != first[5].Entry.ID || !second[7].Conflict {
		t.Errorf("again: %+v, %+v, %v", second[5], second[7], err)
	}
	before := pending(t, s, 1)
	for i, a := range first {
		if e := before[i]; e.ID != a.Entry.ID || e.Body != a.Entry.Body || e.ID != before[0].ID+int64(i) {
			t.Errorf("message %d has id %d and the text %q, want %d", i, e.ID, e.Body, a.Entry.ID)
		}
	}
	fillDisk(t, s, true)
	third := batch()
	third[50].Entry.Body = strings.Repeat("x", 1<<20)
	if err := s.Insert(ctx, third...); err == nil {
		t.Error("accepted though the disk is full")
	}
	if after := pending(t, s, 1); len(after) != len(before) {
		t.Errorf("%d of them are there", len(after)-len(before))
	}
}

// A reader of a room to which several relays add never sees a message before an earlier one.
func testInsert_TwoRelaysInOneRoom_NoneComesBeforeAnEarlierOne(t *testing.T) {
	a, b := relays(t)
	const each = 60
	var wg sync.WaitGroup
	for _, s := range []*Store{a, b} {
		for range 3 {
			wg.Go(func() {
				for i := range each {
					if err := s.Insert(ctx, entry(1, fmt.Sprint(i))); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	last, seen := int64(0), map[int64]bool{}
	for going := true; going; {
		select {
		case <-over:
			going = false // and one last look
		default:
		}
		found, _, err := a.Pending(ctx, 1, 10*each, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range found {
			if !seen[e.ID] && e.ID < last {
				t.Fatalf("message %d is seen after %d", e.ID, last)
			}
			last, seen[e.ID] = e.ID, true
		}
	}
	if len(seen) != 6*each {
		t.Errorf("%d of %d are seen", len(seen), 6*each)
	}
	for _, s := range []*Store{a, b} {
		if app, err := s.Application(ctx, 1); err != nil || app.Accepted != 6*each {
			t.Errorf("%d are counted, %v", app.Accepted, err)
		}
	}
}

func testInsert_OneKeyAtTwoRelays_IsOneMessage(t *testing.T) {
	a, b := relays(t)
	for i := range 10 {
		key := &Key{Key: fmt.Sprint("k", i), Hash: []byte("h")}
		var all [8]*Incoming
		var wg sync.WaitGroup
		for j := range all {
			all[j] = entry(1, "x")
			all[j].Key = key
			wg.Go(func() {
				if err := []*Store{a, b}[j%2].Insert(ctx, all[j]); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		fresh := 0
		for _, x := range all {
			if !x.Replay {
				fresh++
			}
			if x.Entry.ID != all[0].Entry.ID || x.Entry.ID == 0 {
				t.Errorf("key %d stands for %d and %d", i, x.Entry.ID, all[0].Entry.ID)
			}
		}
		if fresh != 1 {
			t.Errorf("key %d was new %d times", i, fresh)
		}
	}
}

// What the database refuses fails alone, and the rest of its commit is stored.
func TestInsert_RefusedByTheDatabase_FailsAlone(t *testing.T) {
	s, before := readyWithMessage(t)
	holding, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Update(ctx, func(*Tx) error { close(holding); <-release; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-holding
	bad := entry(1, "bad")
	bad.Relate = func(tx *Tx, _ *Incoming) error { return tx.exec(`INSERT INTO nowhere VALUES (1)`) }
	good := []*Incoming{entry(1, "a"), entry(1, "b")}
	good[1].Key = &Key{Key: "k", Hash: []byte("h")}
	s.Record(NewOutcome(before.Entry, post.Sent{EventID: "$1"}, 1))
	requests := map[string]func() error{
		"bad":     func() error { return s.Insert(ctx, bad) },
		"a":       func() error { return s.Insert(ctx, good[0]) },
		"b":       func() error { return s.Insert(ctx, good[1]) },
		"settled": func() error { return s.Settle(ctx) },
		"change":  func() error { return s.SetSetting(ctx, "x", "y") },
	}
	for name, request := range requests {
		wg.Go(func() {
			if err := request(); (err != nil) != (name == "bad") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		s.w.mu.Lock()
		n := len(s.w.waiting)
		s.w.mu.Unlock()
		if n == len(requests) {
			break
		}
	}
	close(release)
	wg.Wait()
	if m, err := s.Message(ctx, before.Entry.ID); err != nil || m.State != post.StateSent {
		t.Errorf("the outcome: %s, %v", m.State, err)
	}
	if found := pending(t, s, 1); len(found) != 2 {
		t.Errorf("%d messages are stored, want 2", len(found))
	}
}
