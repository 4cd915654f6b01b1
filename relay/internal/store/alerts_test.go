package store

import (
	"testing"
	"time"

	"slipway/relay/internal/alert"
	"slipway/relay/internal/outbox"
)

// report stores a report of the alert k.
func report(t *testing.T, s *Store, text string, resolves bool) *Accept {
	t.Helper()
	a := entry(1, text)
	a.Entry.ApplicationID, a.Entry.Key, a.Entry.Resolves, a.Entry.AcceptedAt = 1, "k", resolves, time.Now().UnixMilli()
	a.Report, a.Lifecycle = &alert.Report{Resolves: resolves, Digest: []byte(text)}, alert.Edit
	if err := s.Accept(ctx, a); err != nil {
		t.Fatal(err)
	}
	return a
}

func pendingBodies(t *testing.T, s *Store) (all []string) {
	t.Helper()
	entries, _, err := s.Pending(ctx, 1, 10, 1<<30, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Body)
	}
	return all
}

// Whatever is known of the attempts at a message, the last thing that its room gets is the last state of its alert.
func TestReport_TheLastStateComesLast(t *testing.T) {
	s := fresh(t)
	withRoom(t, s)
	attempted := func(at int64) {
		t.Helper()
		err := s.Update(ctx, func(tx *Tx) error { return tx.exec(`UPDATE outbox SET first_attempt_at = ? WHERE kind = 0`, at) })
		if err != nil {
			t.Fatal(err)
		}
	}
	first := report(t, s, "one", false)
	report(t, s, "two", false)
	if got := pendingBodies(t, s); len(got) != 1 || got[0] != "two" {
		t.Errorf("replaced: %q", got)
	}
	attempted(5)
	if a := report(t, s, "three", false); a.Entry.MessageID() != first.Entry.ID || a.Entry.Kind != outbox.Edit {
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
