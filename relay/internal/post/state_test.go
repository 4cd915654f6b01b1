package post

import "testing"

// Each state is explained, and is either on its way or final in one of the ways that the pages and the rules know.
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
