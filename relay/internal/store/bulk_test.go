package store

import (
	"errors"
	"fmt"
	"testing"

	"slipway/relay/internal/post"
)

// Results that are written together mean what each of them means by itself: one of a message that was withdrawn meanwhile has its
// event removed, one that is reported again counts once, and one that is not plain keeps its place between the others.
func TestOutcomes_WrittenTogether_MeanTheSame(t *testing.T) {
	s := ready(t)
	all := make([]*Incoming, 6)
	for i := range all {
		all[i] = entry(1, fmt.Sprintf("message %d", i))
		all[i].Entry.Extras = []string{"", `{"a":1}`}[i%2]
	}
	insert(t, s, all...)
	for i, a := range all {
		if m, err := s.Message(ctx, a.Entry.ID); err != nil || m.Body != a.Entry.Body || m.Extras != a.Entry.Extras || i > 0 && a.Entry.ID <= all[i-1].Entry.ID {
			t.Fatalf("message %d: %+v, %v", i, m, err)
		}
	}
	withdrawn, retried := all[2].Entry.ID, all[4].Entry.ID
	err := s.Update(ctx, func(tx *Tx) error { // nothing else is committed meanwhile
		if err := tx.Withdraw(withdrawn, 1); err != nil {
			return err
		}
		for i, a := range all {
			var fact post.Fact = post.Sent{EventID: fmt.Sprintf("$%d", i)}
			if a.Entry.ID == retried {
				fact = post.Unanswered{Reason: "away", Began: 1}
			}
			s.Record(NewOutcome(a.Entry, fact, 7))
		}
		s.Record(NewOutcome(all[0].Entry, post.Sent{EventID: "$0"}, 8))
		return nil
	})
	if err := errors.Join(err, s.Settle(ctx)); err != nil {
		t.Fatal(err)
	}
	for i, a := range all {
		want := post.StateSent
		switch a.Entry.ID {
		case withdrawn:
			want = post.StateSent // until its removal is done
		case retried:
			want = post.StateRetryWait
		}
		if m, err := s.Message(ctx, a.Entry.ID); err != nil || m.State != want || want == post.StateSent && (m.EventID != fmt.Sprintf("$%d", i) || m.Attempts != 1 && i != 2) {
			t.Errorf("message %d: %s %q after %d attempts, %v", i, m.State, m.EventID, m.Attempts, err)
		}
	}
	waiting := pending(t, s, 1)
	if len(waiting) != 2 || waiting[0].Kind != post.KindRedaction || waiting[0].EventID != "$2" || waiting[1].ID != retried {
		t.Errorf("waiting: %+v", waiting)
	}
	if app, err := s.Application(ctx, 1); err != nil || app.Accepted != 6 || app.Sent != 5 {
		t.Errorf("%+v, %v", app, err)
	}
	hours, err := s.Hours(ctx, 0, 0)
	var accepted, sent int64
	for _, h := range hours {
		accepted, sent = accepted+h.Accepted, sent+h.Sent
	}
	if err != nil || accepted != 6 || sent != 5 {
		t.Errorf("%d accepted, %d sent, %v", accepted, sent, err)
	}
}
