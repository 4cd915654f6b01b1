package store

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/post"
)

// TestLateOutcome: somebody withdraws a message, or gives it up, while an attempt is made at it.
func TestLateOutcome(t *testing.T) {
	sent := post.Sent{EventID: "$e"}
	for name, test := range map[string]struct {
		late     func(tx *Tx, id int64) error
		fact     post.Fact
		want     post.State
		err      string
		followUp bool
	}{
		"withdrawn, sent":     {withdraw, sent, post.StateSent, "", true},
		"withdrawn, in doubt": {withdraw, post.Unanswered{Began: 5}, post.StateCancelled, post.InDoubt, true},
		"withdrawn, not sent": {withdraw, post.Unanswered{}, post.StateCancelled, "", false},
		"given up, sent":      {giveUp, sent, post.StateSent, "", false},
		"given up, not sent":  {giveUp, post.Unanswered{Began: 5}, post.StateDead, "old", false},
		"removed":             {removeRow, sent, "", "", false},
		"nothing, sent":       {func(*Tx, int64) error { return nil }, sent, post.StateSent, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s, a := readyWithMessage(t)
			update(t, s, func(tx *Tx) error { return test.late(tx, a.Entry.ID) })
			o := NewOutcome(a.Entry, test.fact, 9)
			s.Record(o)
			settle(t, s)
			m, err := s.Message(ctx, a.Entry.ID)
			if m.State != test.want || m.Error != test.err || IsMissing(err) != (test.want == "") {
				t.Errorf("%s %q, %v; want %s %q", m.State, m.Error, err, test.want, test.err)
			}
			app, err := s.Application(ctx, 1)
			if sent := app.Sent; err != nil || (sent == 1) != (test.want == post.StateSent) {
				t.Errorf("%d are counted as sent, %v", sent, err)
			}
			left := pending(t, s, 1)
			if (len(left) == 1) != test.followUp || len(left) > 1 {
				t.Fatalf("%d are left", len(left))
			}
			if test.followUp && (left[0].Kind != post.KindRedaction || left[0].EventID != o.Entry.EventID || (left[0].EventID == "") != (left[0].Marker == a.Entry.Txn)) {
				t.Errorf("left: %+v", left[0])
			}
		})
	}
}

// The file of a message that was given up while its event was sent is not forgotten: it is given up in its turn.
func TestLateOutcome_OfALongMessage_KeepsTheFile(t *testing.T) {
	s, a := readyWithMessage(t)
	if _, dead, err := s.Expire(ctx, 1, a.Entry.QueuedAt+1, 7, "old"); err != nil || dead != 1 {
		t.Fatalf("%d given up, %v", dead, err)
	}
	e := a.Entry
	found(t, s, e, post.Sent{EventID: "$e", Rest: []post.Entry{e.AsFile(e.QueuedAt)}}, 9)
	if left := pending(t, s, 1); len(left) != 1 || left[0].Kind != post.KindFile {
		t.Fatalf("left: %+v", left)
	}
	if _, _, err := s.Expire(ctx, 1, a.Entry.QueuedAt+1, 7, "old"); err != nil {
		t.Fatal(err)
	}
	if m, err := s.Message(ctx, e.ID); err != nil || m.State != post.StateSent || !strings.HasSuffix(m.Error, "could not be sent: old") {
		t.Errorf("%+v, %v", m, err)
	}
}

// A removal, or the failure of a file, that comes after the message was asked to be delivered again does not end that.
func TestLateOutcome_OfAMessageQueuedAgain_LeavesIt(t *testing.T) {
	for name, test := range map[string]struct {
		kind post.Kind
		fact post.Fact
	}{
		"removed":     {post.KindRedaction, post.Sent{EventID: "$e"}},
		"not removed": {post.KindRedaction, post.Refused{Reason: "too late"}},
		"no file":     {post.KindFile, post.Refused{Reason: "too late"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, a := readyWithMessage(t)
			follow := a.Entry
			follow.ID, follow.Target, follow.Kind, follow.Txn, follow.EventID = a.Entry.ID+1, a.Entry.ID, test.kind, "t", "$e"
			update(t, s, func(tx *Tx) error { return tx.sql.insertEntries(ctx, &follow) })
			found(t, s, follow, test.fact, 9)
			if m, err := s.Message(ctx, a.Entry.ID); err != nil || m.State != post.StateQueued || m.Error != "" {
				t.Errorf("%s %q, %v", m.State, m.Error, err)
			}
		})
	}
}

func withdraw(tx *Tx, id int64) error {
	return tx.Withdraw(id, 1)
}

func giveUp(tx *Tx, id int64) error {
	return tx.exec(`UPDATE outbox SET state = 'dead', error = 'old', final_at = 1 WHERE id = ?`, id)
}

func removeRow(tx *Tx, id int64) error { return tx.purge([]int64{id}) }

// TestOutcomesOutliveAnError reports results while the database cannot grow; they are stored when it can.
func TestOutcomesOutliveAnError(t *testing.T) {
	s, a := readyWithMessage(t)
	fillDisk(t, s, true)
	told := listen(s)
	done := a.Entry
	done.FirstAttemptAt, done.Wire = 1, []byte(strings.Repeat("w", 100_000)) // kept, as it may have arrived
	s.Record(NewOutcome(done, post.Refused{Reason: "refused"}, 1))
	if err := s.Settle(ctx); err == nil {
		t.Error("it is settled")
	}
	receives(t, "the failure", told.failed)
	if m, err := s.Message(ctx, done.ID); err != nil || m.State != post.StateQueued {
		t.Fatalf("while it cannot be stored: %+v, %v", m.State, err)
	}
	fillDisk(t, s, false)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if m, err := s.Message(ctx, done.ID); err == nil && m.State == post.StateDead {
			return
		}
	}
	t.Error("the result was lost")
}

// The commit of a message's event fails once: its file and its attachment are stored by the retry.
func TestOutcomes_CommitFailsOnce_KeepTheRest(t *testing.T) {
	s, a := readyWithMessage(t)
	rest := []post.Entry{a.Entry.AsFile(1), a.Entry.Follow(post.KindMedia, 1)}
	rest[1].Txn = a.Entry.Txn + "a1"
	o := NewOutcome(a.Entry, post.Sent{EventID: "$e", Rest: rest}, 9)
	failed := errors.New("the commit failed")
	err := s.Update(ctx, func(tx *Tx) error { return errors.Join(tx.storeOutcome(o), failed) }) // rolled back
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	s.Record(o)
	settle(t, s)
	left := pending(t, s, 1)
	if len(left) != 2 || left[0].Kind != post.KindFile || left[1].Kind != post.KindMedia {
		t.Errorf("left: %+v", left)
	}
}

// A step with an entry that was changed since it was loaded has no effects.
func TestStep_EntryChangedSince_HasNoEffects(t *testing.T) {
	s, a := readyWithMessage(t)
	update(t, s, func(tx *Tx) error {
		if err := tx.Withdraw(a.Entry.ID, 1); err != nil {
			return err
		}
		e, err := tx.Step(a.Entry, post.Expired{Reason: "old"}, 2)
		if e.State != a.Entry.State || len(tx.counts) > 0 {
			t.Errorf("it became %s, counted %v", e.State, tx.counts)
		}
		return err
	})
}

// Results wait while only messages are accepted, but whatever changes the outbox finds them stored.
func TestWithdraw_ResultRecordedBefore_IsKnown(t *testing.T) {
	s := ready(t)
	first := entry(1, "first")
	insert(t, s, first)
	s.Record(NewOutcome(first.Entry, post.Sent{EventID: "$1"}, 1))
	insert(t, s, entry(1, "second"))
	err := s.Update(ctx, func(tx *Tx) error { return tx.Withdraw(first.Entry.ID, 2) })
	m, readErr := s.Message(ctx, first.Entry.ID)
	if err := errors.Join(err, readErr); err != nil || m.State != post.StateSent || !m.Removing {
		t.Errorf("it is %q, %v", m.State, err)
	}
}

// A caller that begins to wait for a message with a recorded result does not wait for company of that result.
func TestAwait_ResultRecordedBefore_IsStoredSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "relay.db"))
		withRoom(t, s)
		a := entry(1, "x")
		insert(t, s, a)
		s.Record(NewOutcome(a.Entry, post.Sent{EventID: "$1"}, 1))
		final, end := s.Await(Subject(a.Entry.ID))
		defer end()
		began := time.Now()
		<-final
		if took := time.Since(began); took > awaitedDelay {
			t.Errorf("it took %s", took)
		}
	})
}

// Results that have piled up are written in several transactions.
func TestOutcomes_MoreThanOneCommitTakes_AreAllStored(t *testing.T) {
	s := ready(t)
	all := make([]*Incoming, 2*maxOutcomes+10)
	for i := range all {
		all[i] = entry(1, "x")
	}
	insert(t, s, all...)
	err := s.Update(ctx, func(*Tx) error { // nothing else is committed meanwhile
		for _, a := range all {
			s.Record(NewOutcome(a.Entry, post.Sent{EventID: "$1"}, 1))
		}
		return nil
	})
	if err := errors.Join(err, s.Settle(ctx)); err != nil {
		t.Fatal(err)
	}
	app, err := s.Application(ctx, 1)
	if err != nil || app.Sent != int64(len(all)) {
		t.Errorf("%d of %d counted, %v", app.Sent, len(all), err)
	}
}

// A message is withdrawn at one relay while the other one stores that it was sent: its event is removed.
func testWithdraw_SentElsewhereMeanwhile_RemovesTheEvent(t *testing.T) {
	a, b := relays(t)
	x := entry(1, "x")
	insert(t, a, x)
	sent := elsewhere(t, b, `UPDATE outbox SET state = 'sent', event_id = '$1', final_at = 1 WHERE id = $1`, x.Entry.ID)
	withdrawn := make(chan error, 1)
	go func() { withdrawn <- a.Update(ctx, func(tx *Tx) error { return tx.Withdraw(x.Entry.ID, 2) }) }()
	blocked(t, b)
	if err := errors.Join(sent.Commit(), <-withdrawn); err != nil {
		t.Fatal(err)
	}
	left := pending(t, a, 1)
	if len(left) != 1 || left[0].Kind != post.KindRedaction || left[0].EventID != "$1" {
		t.Errorf("left: %+v", left)
	}
}

// The delivering relay stores that a message's file was sent while the message is withdrawn at another one: the file is removed.
func testOutcomeOfAFile_WithdrawnElsewhereMeanwhile_IsRemoved(t *testing.T) {
	a, b := relays(t)
	if !acquire(t, a, time.Hour) {
		t.Fatal("no lease")
	}
	x := entry(1, "x")
	insert(t, a, x)
	found(t, a, x.Entry, post.Sent{EventID: "$1", Rest: []post.Entry{x.Entry.AsFile(1)}}, 1)
	found := pending(t, a, 1)
	if len(found) != 1 {
		t.Fatalf("the file: %+v", found)
	}
	file := *found[0]
	withdrawing := elsewhere(t, b, `SELECT 1 FROM outbox WHERE id = $1 FOR UPDATE`, x.Entry.ID)
	a.Record(NewOutcome(file, post.Sent{EventID: "$2"}, 1))
	blocked(t, b)
	if _, err := withdrawing.ExecContext(ctx, `UPDATE outbox SET state = 'cancelled', final_at = 1 WHERE target = $1 AND final_at = 0`, x.Entry.ID); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(withdrawing.Commit(), a.Settle(ctx)); err != nil {
		t.Fatal(err)
	}
	left := pending(t, a, 1)
	if len(left) != 1 || left[0].Kind != post.KindRedaction || left[0].EventID != "$2" {
		t.Errorf("what follows: %+v", left)
	}
}
