package store

import (
	"testing"
	"time"

	"slipway/relay/internal/post"
)

// report stores a report of the alert k.
func report(t *testing.T, s *Store, text string, resolves bool) *Accept {
	t.Helper()
	a := entry(1, text)
	a.Entry.ApplicationID, a.Entry.Key, a.Entry.Resolves, a.Entry.AcceptedAt = 1, "k", resolves, time.Now().UnixMilli()
	a.Report, a.Lifecycle = &post.Report{Resolves: resolves, Digest: []byte(text)}, post.LifecycleEdit
	accept(t, s, a)
	return a
}

func pendingBodies(t *testing.T, s *Store) (all []string) {
	t.Helper()
	for _, e := range pending(t, s, 1) {
		all = append(all, e.Body)
	}
	return all
}

// What was withdrawn, or is gone, is not edited, whatever the intake has seen of it a moment before.
func TestEdit_WithdrawnMeanwhile(t *testing.T) {
	s := ready(t)
	m := entry(1, "secret")
	accept(t, s, m)
	found(t, s, m.Entry, post.Sent{EventID: "$1"}, 1)
	update(t, s, func(tx *Tx) error { return tx.Withdraw(m.Entry.ID, 2) })
	for _, id := range []int64{m.Entry.ID, m.Entry.ID + 1000} {
		edit := entry(1, "another secret")
		edit.Entry.Kind, edit.Entry.Target = post.KindEdit, id
		if err := s.Accept(ctx, edit); err != nil || !edit.Gone {
			t.Errorf("an edit of %d: gone is %v, %v", id, edit.Gone, err)
		}
	}
	entries := pending(t, s, 1)
	if len(entries) != 1 || entries[0].Kind != post.KindRedaction {
		t.Errorf("%d entries wait", len(entries))
	}
}

// Whatever is known of the attempts at a message, the last thing that its room gets is the last state of its alert.
func TestReport_TheLastStateComesLast(t *testing.T) {
	s := ready(t)
	attempted := func(at int64) {
		t.Helper()
		update(t, s, func(tx *Tx) error { return tx.exec(`UPDATE outbox SET first_attempt_at = ? WHERE kind = 0`, at) })
	}
	first := report(t, s, "one", false)
	report(t, s, "two", false)
	if got := pendingBodies(t, s); len(got) != 1 || got[0] != "two" {
		t.Errorf("replaced: %q", got)
	}
	attempted(5)
	if a := report(t, s, "three", false); a.Entry.MessageID() != first.Entry.ID || a.Entry.Kind != post.KindEdit {
		t.Errorf("%+v", a.Entry)
	}
	attempted(0) // the room has shown that it never arrived
	report(t, s, "four", true)
	if got := pendingBodies(t, s); len(got) != 2 || got[1] != "four" {
		t.Errorf("after the message comes %q", got)
	}
	if a := report(t, s, "four", true); !a.Replay || a.Entry.ID != first.Entry.ID {
		t.Errorf("repeated: %+v", a)
	}
}
