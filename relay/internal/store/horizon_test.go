package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"slipway/relay/internal/post"
)

// Another relay has given out an id and not committed yet: the horizon waits for it, so that no reader passes it over.
func testHorizon_AnotherRelayWrites_WaitsForIt(t *testing.T) {
	a, b := relays(t)
	before := entry(1, "before")
	insert(t, a, before)
	slow := elsewhere(t, a, `INSERT INTO outbox (kind, room, application_id, accepted_at, source, title, body, content_type, txn, queued_at, state)
		VALUES (0, 2, 1, 1, '', '', 'slow', '', 'slow', 1, 'queued')`)
	later := entry(1, "later")
	insert(t, b, later)
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if id, err := b.Horizon(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("while another writes: %d, %v", id, err)
	}
	if err := slow.Commit(); err != nil {
		t.Fatal(err)
	}
	id, err := b.Horizon(ctx)
	if err != nil || id != later.Entry.ID || id != before.Entry.ID+2 {
		t.Errorf("the horizon is %d, %v, want %d", id, err, later.Entry.ID)
	}
	again := elsewhere(t, a, `UPDATE users SET name = name`) // writes, but no entries
	if id, err := a.Horizon(ctx); err != nil || id != later.Entry.ID {
		t.Errorf("beside another transaction: %d, %v", id, err)
	}
	_ = again.Rollback()
}

func TestRead(t *testing.T) {
	s := ready(t)
	var ids []int64
	for _, body := range []string{"1", "2", "3", "4"} {
		e := entry(1, body)
		insert(t, s, e)
		ids = append(ids, e.Entry.ID)
	}
	if h, err := s.Horizon(ctx); err != nil || h != ids[3] {
		t.Fatalf("the horizon is %d, %v", h, err)
	}
	update(t, s, func(tx *Tx) error {
		return errors.Join(tx.Hide(1, ids[1]), tx.Hide(1, ids[1]), tx.Withdraw(ids[2], 1))
	})
	read := func(r Reading) (texts string, more bool) {
		t.Helper()
		if r.Limit == 0 {
			r.Limit = 10
		}
		all, more, err := s.Read(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			texts += m.Body
		}
		return texts, more
	}
	for _, tt := range []struct {
		name string
		r    Reading
		want string
		more bool
	}{
		{"newest first", Reading{}, "421", false},
		{"of the owner", Reading{Owner: 1}, "421", false},
		{"of another", Reading{Owner: 2}, "", false},
		{"of an application", Reading{Application: 1}, "421", false},
		{"of another application", Reading{Application: 2}, "", false},
		{"without the hidden one", Reading{Owner: 1, HiddenFrom: 1}, "41", false},
		{"hidden from another", Reading{HiddenFrom: 2}, "421", false},
		{"oldest first", Reading{Oldest: true}, "124", false},
		{"the first of them", Reading{Oldest: true, Limit: 1}, "1", true},
		{"after one, through another", Reading{Oldest: true, After: ids[0], Through: ids[2]}, "2", false},
		{"one", Reading{ID: ids[3]}, "4", false},
		{"two bytes", Reading{Bytes: 2}, "42", true},
	} {
		if got, more := read(tt.r); got != tt.want || more != tt.more {
			t.Errorf("%s: %q, %v, want %q, %v", tt.name, got, more, tt.want, tt.more)
		}
	}
	err := s.Update(ctx, func(tx *Tx) error {
		return errors.Join(tx.HideThrough(1, 1, ids[0]), tx.HideThrough(1, 1, 0))
	})
	if got, _ := read(Reading{HiddenFrom: 1}); err == nil && got != "4" {
		t.Errorf("hidden through the first: %q", got)
	}
	if err == nil { // an edit is read as a message, and withdrawn with its message
		edit := entry(1, "5")
		edit.Entry.Kind, edit.Entry.Target = post.KindEdit, ids[3]
		err = s.Update(ctx, func(tx *Tx) error { return tx.sql.insertEntries(ctx, &edit.Entry) })
	}
	if got, _ := read(Reading{}); err == nil && got != "521" {
		t.Errorf("with an edit: %q", got)
	}
	if got, _ := read(Reading{ID: ids[3]}); err == nil && got != "4" {
		t.Errorf("the edited message itself: %q", got)
	}
	if err == nil {
		reply := entry(1, "6")
		reply.Entry.Kind, reply.Entry.Target = post.KindReply, ids[3]
		err = s.Update(ctx, func(tx *Tx) error { return tx.sql.insertEntries(ctx, &reply.Entry) })
	}
	if got, _ := read(Reading{Oldest: true, After: ids[3]}); err == nil && got != "6" {
		t.Errorf("with a reply: %q", got)
	}
	if err == nil {
		err = s.Update(ctx, func(tx *Tx) error { return errors.Join(tx.Withdraw(ids[3], 1), tx.HideThrough(1, 0, ids[3])) })
	}
	if got, _ := read(Reading{}); err == nil && got != "21" {
		t.Errorf("after the edited message was withdrawn: %q", got)
	}
	var left int
	if err == nil {
		err = s.read.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM hidden_messages WHERE user_id = 1) + (SELECT count(*) FROM hidden_through WHERE user_id = 1)`).Scan(&left)
	}
	if err != nil || left != 1 {
		t.Errorf("%d rows are left of what was hidden, %v", left, err)
	}
}
