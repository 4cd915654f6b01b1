package store

import "testing"

// A delayed entry isn't pending before it is due, and a kill before that leaves no doubt about it.
func TestReleaseDelayed(t *testing.T) {
	s := fresh(t)
	withRoom(t, s)
	later := entry(1, "later")
	later.Entry.NextAt, later.Entry.QueuedAt = 2000, 2000
	now := entry(1, "now")
	now.Entry.QueuedAt = 500
	for _, a := range []*Accept{later, now} {
		if err := s.Accept(ctx, a); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.MarkSuspects(ctx, "DEVICE"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		at, next int64
		pending  int
	}{{1999, 2000, 1}, {2000, 0, 2}} {
		if err := s.ReleaseDelayed(ctx, tt.at); err != nil {
			t.Fatal(err)
		}
		entries, _, err := s.Pending(ctx, 1, 10, 1<<20, nil)
		next, err2 := s.NextDelayed(ctx)
		if err != nil || err2 != nil || len(entries) != tt.pending || next != tt.next {
			t.Fatalf("at %d: %d entries, the next at %d; %v, %v", tt.at, len(entries), next, err, err2)
		}
		for _, e := range entries {
			if suspect := e.FirstAttemptAt != 0; suspect != (e.Body == "now") {
				t.Errorf("%s counts as attempted: %t", e.Body, suspect)
			}
		}
	}
}
