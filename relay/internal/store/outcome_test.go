package store

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/message"
)

// TestLateOutcome: somebody withdraws a message, or gives it up, while an attempt is made at it.
func TestLateOutcome(t *testing.T) {
	for name, test := range map[string]struct {
		late     func(tx *Tx, id int64) error
		outcome  message.State
		first    int64 // FirstAttemptAt
		want     message.State
		err      string
		followUp bool
	}{
		"withdrawn, sent":     {withdraw, message.StateSent, 5, message.StateSent, "", true},
		"withdrawn, in doubt": {withdraw, message.StateRetryWait, 5, message.StateCancelled, message.InDoubt, true},
		"withdrawn, not sent": {withdraw, message.StateRetryWait, 0, message.StateCancelled, "", false},
		"given up, sent":      {giveUp, message.StateSent, 5, message.StateSent, "", false},
		"given up, not sent":  {giveUp, message.StateRetryWait, 5, message.StateDead, "old", false},
		"removed":             {removeRow, message.StateSent, 5, "", "", false},
		"nothing, sent":       {func(*Tx, int64) error { return nil }, message.StateSent, 5, message.StateSent, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := fresh(t)
			withRoom(t, s)
			a := entry(1, "x")
			if err := s.Accept(ctx, a); err != nil {
				t.Fatal(err)
			}
			if err := s.Update(ctx, func(tx *Tx) error { return test.late(tx, a.Entry.ID) }); err != nil {
				t.Fatal(err)
			}
			e := a.Entry
			e.State, e.FirstAttemptAt = test.outcome, test.first
			if e.State == message.StateSent {
				e.EventID = "$e"
			}
			s.Report(&Outcome{Entry: e, At: 9})
			if err := s.Settle(ctx); err != nil {
				t.Fatal(err)
			}
			m, err := s.Message(ctx, a.Entry.ID)
			if m.State != test.want || m.Error != test.err || IsMissing(err) != (test.want == "") {
				t.Errorf("%s %q, %v; want %s %q", m.State, m.Error, err, test.want, test.err)
			}
			totals, err := s.Totals(ctx)
			if sent := totals[1].Sent; err != nil || (sent == 1) != (test.want == message.StateSent) {
				t.Errorf("%d are counted as sent, %v", sent, err)
			}
			left, _, err := s.Pending(ctx, 1, 10, 1<<30, nil)
			if err != nil || (len(left) == 1) != test.followUp || len(left) > 1 {
				t.Fatalf("%d are left, %v", len(left), err)
			}
			if test.followUp && (left[0].Kind != message.Redact || left[0].EventID != e.EventID || left[0].TargetTxn != e.Txn) {
				t.Errorf("left: %+v", left[0])
			}
		})
	}
}

// What is left of a message that was given up while its first event was sent is not forgotten: it is given up in its turn.
func TestLateOutcome_OfAMessageInParts_KeepsTheRest(t *testing.T) {
	s := fresh(t)
	withRoom(t, s)
	a := entry(1, "x")
	if err := s.Accept(ctx, a); err != nil {
		t.Fatal(err)
	}
	x := Expiry{Room: 1, Cutoff: a.Entry.QueuedAt + 1, Now: 7, Reason: "old", Incomplete: "not all of it"}
	if _, dead, err := s.Expire(ctx, x); err != nil || dead != 1 {
		t.Fatalf("%d given up, %v", dead, err)
	}
	e := a.Entry
	e.State, e.EventID = message.StateSent, "$e"
	s.Report(&Outcome{Entry: e, At: 9, FollowUp: &message.Entry{Kind: message.Part, After: e.ID, Room: 1, Txn: e.Txn + "p1", QueuedAt: e.QueuedAt}})
	if err := s.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	if left, _, err := s.Pending(ctx, 1, 10, 1<<30, nil); err != nil || len(left) != 1 || left[0].Kind != message.Part {
		t.Fatalf("left: %+v, %v", left, err)
	}
	if _, _, err := s.Expire(ctx, x); err != nil {
		t.Fatal(err)
	}
	if m, err := s.Message(ctx, e.ID); err != nil || m.State != message.StateSent || m.Error != "not all of it" {
		t.Errorf("%+v, %v", m, err)
	}
}

// A removal, or the failure of a file, that comes after the message was asked to be delivered again does not end that.
func TestLateOutcome_OfAMessageQueuedAgain_LeavesIt(t *testing.T) {
	for name, o := range map[string]Outcome{
		"removed":     {Entry: message.Entry{Kind: message.Redact, State: message.StateSent, EventID: "$e"}},
		"not removed": {Entry: message.Entry{Kind: message.Redact, State: message.StateDead, EventID: "$e"}, Failure: "too late"},
		"no file":     {Entry: message.Entry{Kind: message.File, State: message.StateDead}, Failure: "too late"},
	} {
		t.Run(name, func(t *testing.T) {
			s := fresh(t)
			withRoom(t, s)
			a := entry(1, "x")
			if err := s.Accept(ctx, a); err != nil {
				t.Fatal(err)
			}
			follow := a.Entry
			follow.ID, follow.After, follow.Kind, follow.Txn = a.Entry.ID+1, a.Entry.ID, o.Entry.Kind, "t"
			err := s.Update(ctx, func(tx *Tx) error { return tx.sql.followUp(ctx, &follow) })
			if err != nil {
				t.Fatal(err)
			}
			o.Entry.ID, o.Entry.After, o.Entry.Room, o.At = follow.ID, follow.After, 1, 9
			s.Report(&o)
			if err := s.Settle(ctx); err != nil {
				t.Fatal(err)
			}
			if m, err := s.Message(ctx, a.Entry.ID); err != nil || m.State != message.StateQueued || m.Error != "" {
				t.Errorf("%s %q, %v", m.State, m.Error, err)
			}
		})
	}
}

func withdraw(tx *Tx, id int64) error {
	_, err := tx.Withdraw(id, 1)
	return err
}

func giveUp(tx *Tx, id int64) error {
	return tx.exec(`UPDATE outbox SET state = 'dead', error = 'old', final_at = 1 WHERE id = ?`, id)
}

func removeRow(tx *Tx, id int64) error { return tx.purge([]int64{id}) }

// TestOutcomesOutliveAnError reports results while the database cannot grow; they are stored when it can.
func TestOutcomesOutliveAnError(t *testing.T) {
	s := fresh(t)
	withRoom(t, s)
	a := entry(1, "x")
	if err := s.Accept(ctx, a); err != nil {
		t.Fatal(err)
	}
	limit := func(pages int) {
		if err := s.LimitPages(ctx, pages); err != nil {
			t.Fatal(err)
		}
	}
	limit(1)
	done := a.Entry
	done.State, done.Error, done.Wire = message.StateDead, "refused", []byte(strings.Repeat("w", 100_000))
	number := s.Report(&Outcome{Entry: done, At: 1})
	if err := s.Settle(ctx); err == nil || s.Committed() >= number {
		t.Errorf("settled: %v, %d committed", err, s.Committed())
	}
	<-s.Changes()
	if _, failure := s.TakeChanges(); failure == nil {
		t.Error("nobody is told")
	}
	if m, err := s.Message(ctx, done.ID); err != nil || m.State != message.StateQueued {
		t.Fatalf("while it cannot be stored: %+v, %v", m.State, err)
	}
	limit(1 << 30)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if m, err := s.Message(ctx, done.ID); err == nil && m.State == message.StateDead && s.Committed() == number {
			return
		}
	}
	t.Error("the result was lost")
}

// Results wait while only messages are accepted, but whatever changes the outbox finds them stored.
func TestWithdraw_ResultReportedBefore_IsKnown(t *testing.T) {
	s := fresh(t)
	withRoom(t, s)
	first := entry(1, "first")
	if err := s.Accept(ctx, first); err != nil {
		t.Fatal(err)
	}
	sent := first.Entry
	sent.State, sent.EventID = message.StateSent, "$1"
	number := s.Report(&Outcome{Entry: sent, At: 1})
	if err := s.Accept(ctx, entry(1, "second")); err != nil {
		t.Fatal(err)
	}
	var was message.State
	err := s.Update(ctx, func(tx *Tx) (err error) {
		was, err = tx.Withdraw(first.Entry.ID, 2)
		return err
	})
	if err != nil || was != message.StateSent || s.Committed() != number {
		t.Errorf("it was %q, %d of %d committed, %v", was, s.Committed(), number, err)
	}
}

// Accepted together, messages get ids in their order, each with its own text.
func TestAccept_ManyAtOnce_EachGetsItsId(t *testing.T) {
	s := fresh(t)
	withRoom(t, s)
	all := make([]*Accept, 2*maxRows+3)
	for i := range all {
		all[i] = entry(1, strconv.Itoa(i))
	}
	if err := s.Accept(ctx, all...); err != nil {
		t.Fatal(err)
	}
	for i, a := range all {
		m, err := s.Message(ctx, a.Entry.ID)
		if err != nil || m.Body != strconv.Itoa(i) || i > 0 && a.Entry.ID != all[i-1].Entry.ID+1 {
			t.Errorf("message %d has the id %d and the text %q, %v", i, a.Entry.ID, m.Body, err)
		}
	}
}

// Results that have piled up are written in several transactions.
func TestOutcomes_MoreThanOneCommitTakes_AreAllStored(t *testing.T) {
	s := fresh(t)
	withRoom(t, s)
	all := make([]*Accept, 2*maxOutcomes+10)
	for i := range all {
		all[i] = entry(1, "x")
	}
	if err := s.Accept(ctx, all...); err != nil {
		t.Fatal(err)
	}
	var last int64
	err := s.Update(ctx, func(*Tx) error { // nothing else is committed meanwhile
		for _, a := range all {
			e := a.Entry
			e.State, e.EventID = message.StateSent, "$1"
			last = s.Report(&Outcome{Entry: e, At: 1})
		}
		return nil
	})
	if err := errors.Join(err, s.Settle(ctx)); err != nil {
		t.Fatal(err)
	}
	totals, err := s.Totals(ctx)
	if err != nil || s.Committed() != last || totals[1].Sent != int64(len(all)) {
		t.Errorf("%d of %d committed, %d counted, %v", s.Committed(), last, totals[1].Sent, err)
	}
}

// A message is withdrawn at one relay while the other one stores that it was sent: its event is removed.
func testWithdraw_SentElsewhereMeanwhile_RemovesTheEvent(t *testing.T) {
	a, b := relays(t)
	x := entry(1, "x")
	if err := a.Accept(ctx, x); err != nil {
		t.Fatal(err)
	}
	sent := elsewhere(t, b, `UPDATE outbox SET state = 'sent', event_id = '$1', final_at = 1 WHERE id = $1`, x.Entry.ID)
	withdrawn := make(chan error, 1)
	var was message.State
	go func() {
		withdrawn <- a.Update(ctx, func(tx *Tx) (err error) {
			was, err = tx.Withdraw(x.Entry.ID, 2)
			return err
		})
	}()
	blocked(t, b)
	if err := errors.Join(sent.Commit(), <-withdrawn); err != nil {
		t.Fatal(err)
	}
	left, _, err := a.Pending(ctx, 1, 10, 1000, nil)
	if err != nil || was != message.StateSent || len(left) != 1 || left[0].Kind != message.Redact || left[0].EventID != "$1" {
		t.Errorf("withdrawn as %s, then %+v, %v", was, left, err)
	}
}

// The relay that delivers stores that a part was sent while the message is withdrawn at another one: no more of it follows.
func testOutcomeOfAPart_WithdrawnElsewhereMeanwhile_NothingFollows(t *testing.T) {
	a, b := relays(t)
	if !acquire(t, a, time.Hour) {
		t.Fatal("no lease")
	}
	x := entry(1, "x")
	if err := a.Accept(ctx, x); err != nil {
		t.Fatal(err)
	}
	sent, part := x.Entry, message.Entry{Kind: message.Part, After: x.Entry.ID, Room: 1, Txn: "p1", QueuedAt: 1}
	sent.State, sent.EventID = message.StateSent, "$1"
	a.Report(&Outcome{Entry: sent, At: 1, FollowUp: &part})
	if err := a.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	found, _, err := a.Pending(ctx, 1, 10, 1000, nil)
	if err != nil || len(found) != 1 {
		t.Fatalf("the part: %+v, %v", found, err)
	}
	part = *found[0]
	part.State, part.EventID = message.StateSent, "$2"
	withdrawing := elsewhere(t, b, `SELECT 1 FROM outbox WHERE id = $1 FOR UPDATE`, x.Entry.ID)
	a.Report(&Outcome{Entry: part, At: 1, FollowUp: &message.Entry{Kind: message.Part, After: x.Entry.ID, Room: 1, Txn: "p2", QueuedAt: 1}})
	blocked(t, b)
	if _, err := withdrawing.ExecContext(ctx, `UPDATE outbox SET state = 'cancelled', final_at = 1 WHERE after = $1 AND final_at = 0`, x.Entry.ID); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(withdrawing.Commit(), a.Settle(ctx)); err != nil {
		t.Fatal(err)
	}
	left, _, err := a.Pending(ctx, 1, 10, 1000, nil)
	if err != nil || len(left) != 1 || left[0].Kind != message.Redact || left[0].EventID != "$2" {
		t.Errorf("what follows: %+v, %v", left, err)
	}
}
