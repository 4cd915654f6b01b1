package post

import "testing"

// Each state is explained, and is either pending or final in one of the ways that the pages and the rules know.
func TestStates(t *testing.T) {
	for _, s := range States {
		if s.Note() == "" {
			t.Errorf("%s has no note", s)
		}
		n := 0
		for _, is := range []bool{s.Pending(), s.Troubled(), s == StateSent, s.Withdrawn()} {
			if is {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s is %d of pending, troubled, sent and withdrawn, want one", s, n)
		}
	}
	if s := StateForgotten; s.Pending() || s.Editable() || s.Note() != "" {
		t.Errorf("%s is in the table", s)
	}
}

// Nothing is sent without a bound in time and number, and nothing waits that nobody can release or withdraw.
func TestStates_Pending(t *testing.T) {
	for _, s := range States {
		switch moving := []bool{s.Expiring(), s.Awaited(), s.Blockable(), s.Counted()}; {
		case s.Sendable() && moving[0] && moving[1] && moving[2] && moving[3] && s.Readable():
		case s.Sendable():
			t.Errorf("%s is sendable, but not all of expiring, awaited, blockable, counted and readable", s)
		case s.Pending() && !s.Redeliverable():
			t.Errorf("%s is pending, but neither sendable nor redeliverable: a message would stay in it", s)
		}
		if (s.Sendable() || s.Expiring() || s.Awaited() || s.Blockable() || s.Counted() || s.Initial()) && !s.Pending() {
			t.Errorf("%s is final, but in a set of pending states", s)
		}
		if s.Pending() && !s.Cancellable() {
			t.Errorf("%s is pending, but not cancellable", s)
		}
	}
}

// A step does with a message in each state what the sets of that promise.
func TestStep_TakesStatesAsTheirSetsSay(t *testing.T) {
	for _, s := range States {
		step := func(f Fact) Entry {
			e, _, _ := Step(of(KindMessage, s), f, 9)
			if final := e.FinalAt != 0; final == e.State.Pending() {
				t.Errorf("%s after %T: became %s, ended at %d", s, f, e.State, e.FinalAt)
			}
			return e
		}
		if e := step(Expired{Reason: "old"}); s.Expiring() != (e.State == StateDead && s != StateDead) {
			t.Errorf("%s after it was too old: %s, expiring %v", s, e.State, s.Expiring())
		}
		if e := step(Redelivered{Txn: "n"}); s.Redeliverable() != (e.State == StateQueued && s != StateQueued) {
			t.Errorf("%s after it was redelivered: %s, redeliverable %v", s, e.State, s.Redeliverable())
		}
		if e := step(Withdrawn{}); s.Cancellable() != (e.State == StateCancelled && s != StateCancelled) {
			t.Errorf("%s after it was withdrawn: %s, cancellable %v", s, e.State, s.Cancellable())
		}
	}
}
