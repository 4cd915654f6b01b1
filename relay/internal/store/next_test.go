package store

import (
	"fmt"
	"strings"
	"testing"

	"slipway/relay/internal/post"
)

func TestPendingPages(t *testing.T) {
	s := fresh(t)
	for i := range 10 {
		insert(t, s, entry(1, fmt.Sprint(i)+strings.Repeat("x", 1000)))
	}
	tests := []struct {
		sent         int // and not committed yet
		limit, bytes int
		first, want  int
		more         bool
	}{
		{0, 100, 1 << 30, 1, 10, false},
		{0, 4, 1 << 30, 1, 4, true},
		{0, 100, 1, 1, 1, true},
		{0, 100, 3000, 1, 3, true},
		{1, 8, 1 << 30, 2, 8, true},
		{3, 6, 1 << 30, 5, 6, false},
	}
	next := pending(t, s, 1)
	for _, test := range tests {
		for range test.sent {
			s.Record(NewOutcome(*next[0], post.Sent{EventID: "$1"}, 1))
			next = next[1:]
		}
		got, more, err := s.Pending(ctx, 1, test.limit, test.bytes)
		if err != nil || len(got) != test.want || more != test.more {
			t.Errorf("%+v: %d entries, more %v, %v", test, len(got), more, err)
		}
		for i, e := range got {
			if e.ID != int64(test.first+i) {
				t.Errorf("%+v: entry %d has id %d", test, i, e.ID)
			}
		}
	}
}

// No more messages of a room than a start after a crash takes for suspects are sent without being committed.
func TestPending_ManyRecorded_CommitsThem(t *testing.T) {
	s := ready(t)
	const page = window / 2
	for range 3 * page {
		insert(t, s, entry(1, "x"))
	}
	for range 3 {
		all, _, err := s.Pending(ctx, 1, page, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		var sent int
		if err := s.queryRow(ctx, `SELECT count(*) FROM outbox WHERE state = 'sent'`).Scan(&sent); err != nil {
			t.Fatal(err)
		}
		if unknown := int(all[0].ID-1) - sent; len(all) != page || unknown+page > window {
			t.Errorf("%d entries are read while %d that were sent are not committed", len(all), unknown)
		}
		for _, e := range all {
			s.Record(NewOutcome(*e, post.Sent{EventID: "$1"}, 1))
		}
	}
}

// TestFollowUpsComeFirst: what follows a message has its place, before messages that were accepted later.
func TestFollowUpsComeFirst(t *testing.T) {
	s := fresh(t)
	var all []*Incoming
	for i := range 3 {
		all = append(all, entry(1, fmt.Sprint(i)))
	}
	insert(t, s, all...)
	done := all[0].Entry
	file := done.AsFile(5)
	s.Record(NewOutcome(done, post.Sent{EventID: "$0", Rest: []post.Entry{file}}, 7))
	got, _, err := s.Pending(ctx, 1, 10, 1<<30)
	if err != nil || len(got) != 3 || got[0].Kind != post.KindFile || got[0].Target != done.ID || got[0].Body != "0" || got[0].Txn != done.Txn+"f" || got[0].TargetEvent != "$0" || got[1].Body != "1" {
		t.Errorf("%d entries, %v: %+v", len(got), err, got[0])
	}
}

func TestOldest(t *testing.T) {
	s := ready(t)
	if at, err := s.Oldest(ctx); at != 0 || err != nil {
		t.Errorf("of an empty outbox: %d, %v", at, err)
	}
	first, second := entry(1, "x"), entry(1, "y")
	second.Entry.QueuedAt += 50
	insert(t, s, first, second)
	if at, err := s.Oldest(ctx); at != first.Entry.QueuedAt || err != nil {
		t.Errorf("%d, %v; want %d", at, err, first.Entry.QueuedAt)
	}
	update(t, s, func(tx *Tx) error { return giveUp(tx, first.Entry.ID) })
	if at, err := s.Oldest(ctx); at != second.Entry.QueuedAt || err != nil {
		t.Errorf("%d, %v; want %d", at, err, second.Entry.QueuedAt)
	}
}

// Of each room as many entries as may have been sent without a trace are in doubt, and no others.
func TestMarkSuspects(t *testing.T) {
	s := ready(t)
	rooms := []int64{1, 0}
	update(t, s, func(tx *Tx) error {
		r, err := tx.RoomAt("!b")
		rooms[1] = r.ID
		return err
	})
	for range window + 3 {
		for _, room := range rooms {
			insert(t, s, entry(room, "x"))
		}
	}
	first, _, err := s.Pending(ctx, rooms[1], 2, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	sent, attempted := *first[0], *first[1]
	s.Record(NewOutcome(sent, post.Sent{EventID: "$1"}, 1))
	found(t, s, attempted, post.Unanswered{Began: 7, Device: "BEFORE"}, 1)
	if err := s.MarkSuspects(ctx, "DEVICE"); err != nil {
		t.Fatal(err)
	}
	for i, room := range rooms {
		all := pending(t, s, room)
		if len(all) != window+3-i {
			t.Fatalf("room %d has %d entries", room, len(all))
		}
		for n, e := range all {
			device, at := "DEVICE", e.QueuedAt
			if n >= window {
				device, at = "", 0
			}
			if e.ID == attempted.ID {
				device, at = "BEFORE", 7
			}
			if e.Device != device || e.FirstAttemptAt != at {
				t.Errorf("room %d: entry %d counts as attempted by %q at %d, want %q, %d", room, n, e.Device, e.FirstAttemptAt, device, at)
			}
		}
	}
}

// An entry stays a suspect when others came in front of it while it was in flight; those that wait behind it don't become suspects.
func TestMarkSuspects_OthersCameInFront(t *testing.T) {
	s := ready(t)
	var delayed []*Incoming
	for i := range window + 5 {
		e := entry(1, "delayed")
		e.Entry.QueuedAt, e.Entry.NextAt = e.Entry.QueuedAt+1000+int64(i), e.Entry.QueuedAt+1000+int64(i)
		delayed = append(delayed, e)
	}
	insert(t, s, delayed...)
	flying, behind := entry(1, "in flight"), entry(1, "behind")
	insert(t, s, flying, behind)
	update(t, s, func(tx *Tx) error {
		for _, d := range delayed {
			e, err := tx.Entry(d.Entry.ID)
			if err != nil {
				return err
			}
			if _, err = tx.Step(e, post.Due{}, e.NextAt); err != nil {
				return err
			}
		}
		return nil
	})
	if err := s.MarkSuspects(ctx, "DEVICE"); err != nil {
		t.Fatal(err)
	}
	for n, e := range pending(t, s, 1) {
		want := n < window || e.ID == flying.Entry.ID
		if got := e.Device == "DEVICE" && e.FirstAttemptAt == e.QueuedAt; got != want {
			t.Errorf("entry %d, %q: a suspect %v, want %v", n, e.Body, got, want)
		}
	}
}
