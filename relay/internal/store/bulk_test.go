package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"slipway/relay/internal/message"
)

// Results that are written together mean what each of them means by itself: one of a message that was withdrawn meanwhile has its
// event removed, one that is reported again counts once, and one that is not plain keeps its place between the others.
func TestOutcomes_WrittenTogether_MeanTheSame(t *testing.T) {
	s := fresh(t)
	withRoom(t, s)
	all := make([]*Accept, 6)
	for i := range all {
		all[i] = entry(1, fmt.Sprintf("message %d", i))
		all[i].Entry.Extras = []string{"", `{"a":1}`}[i%2]
	}
	if err := s.Accept(ctx, all...); err != nil {
		t.Fatal(err)
	}
	for i, a := range all {
		if m, err := s.Message(ctx, a.Entry.ID); err != nil || m.Body != a.Entry.Body || string(m.Extras) != a.Entry.Extras || i > 0 && a.Entry.ID <= all[i-1].Entry.ID {
			t.Fatalf("message %d: %+v, %v", i, m, err)
		}
	}
	withdrawn, retried := all[2].Entry.ID, all[4].Entry.ID
	err := s.Update(ctx, func(tx *Tx) error { // nothing else is committed meanwhile
		if _, err := tx.Withdraw(withdrawn, 1); err != nil {
			return err
		}
		for i, a := range all {
			e := a.Entry
			e.State, e.Attempts, e.EventID, e.FirstAttemptAt = message.StateSent, 1, fmt.Sprintf("$%d", i), 1
			if e.ID == retried {
				e.State, e.Error, e.EventID, e.NextAt = message.StateRetryWait, "away", "", 5
			}
			s.Report(&Outcome{Entry: e, At: 7})
		}
		again := all[0].Entry
		again.State, again.Attempts, again.EventID = message.StateSent, 1, "$0"
		s.Report(&Outcome{Entry: again, At: 8})
		return nil
	})
	if err := errors.Join(err, s.Settle(ctx)); err != nil {
		t.Fatal(err)
	}
	for i, a := range all {
		want := message.StateSent
		switch a.Entry.ID {
		case withdrawn:
			want = message.StateSent // until its removal is done
		case retried:
			want = message.StateRetryWait
		}
		if m, err := s.Message(ctx, a.Entry.ID); err != nil || m.State != want || want == message.StateSent && (m.EventID != fmt.Sprintf("$%d", i) || m.Attempts != 1 && i != 2) {
			t.Errorf("message %d: %s %q after %d attempts, %v", i, m.State, m.EventID, m.Attempts, err)
		}
	}
	waiting, _, err := s.Pending(ctx, 1, 10, 1<<20, nil)
	if err != nil || len(waiting) != 2 || waiting[0].Kind != message.Redact || waiting[0].EventID != "$2" || waiting[1].ID != retried {
		t.Errorf("waiting: %+v, %v", waiting, err)
	}
	if totals, err := s.Totals(ctx); err != nil || totals[1].Accepted != 6 || totals[1].Sent != 5 {
		t.Errorf("%+v, %v", totals[1], err)
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

// Messages that are accepted together are stored by several statements if they are large: their order and their texts stay.
func TestAccept_ManyLargeMessages_AreStoredInOrder(t *testing.T) {
	s := fresh(t)
	withRoom(t, s)
	all := make([]*Accept, 12)
	for i := range all {
		all[i] = entry(1, fmt.Sprint(i, " ")+strings.Repeat("x", i%3<<20))
	}
	if n := fitting(all, maxInsert); n < 2 || n == len(all) {
		t.Errorf("one statement takes %d of them", n)
	}
	if n := fitting(all[2:], 1); n != 1 {
		t.Errorf("one statement takes %d messages that are larger than it may be", n)
	}
	if err := s.Accept(ctx, all...); err != nil {
		t.Fatal(err)
	}
	found, _, err := s.Pending(ctx, 1, 100, 1<<30, nil)
	if err != nil || len(found) != len(all) {
		t.Fatalf("%d are stored, %v", len(found), err)
	}
	for i, e := range found {
		if want := &all[i].Entry; e.ID != want.ID || e.Body != want.Body {
			t.Errorf("message %d has id %d, want %d, and begins %.10q", i, e.ID, want.ID, e.Body)
		}
	}
}
