package lease

import (
	"errors"
	"testing"
	"time"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
)

// A process that was stopped for longer than others believe that it serves begins no section
// before it has joined again: an offline collection may be under way.
func TestBegin_AfterTheMembershipRanOut_Fails(t *testing.T) {
	l := New(object.NewClient(nil, "", object.Limits{}, object.Timing{}), Options{})
	l.self, l.looked, l.until = record{Owner: "me"}, true, time.Now().Add(time.Hour)
	ends := time.Now().Add(time.Minute)
	l.joined = l.hold(members+"me", time.Minute)
	l.joined.ends.Store(&ends)
	s, err := l.Begin(t.Context())
	if err != nil {
		t.Fatalf("while it has joined: %v", err)
	}
	s.End()
	ends = time.Now().Add(-time.Millisecond)
	l.joined.ends.Store(&ends)
	if _, err := l.Begin(t.Context()); !errors.Is(err, storage.ErrTemporary) {
		t.Errorf("after the membership has run out: %v, want ErrTemporary", err)
	}
}
