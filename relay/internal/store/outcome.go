package store

import (
	"context"
	"database/sql"
	"errors"

	"slipway/relay/internal/message"
)

// Outcome is what an attempt made of an entry.
type Outcome struct {
	Entry    message.Entry  // a copy, with the new values of all fields that an attempt may change
	At       int64          // when
	FollowUp *message.Entry // what follows for the message: its next event, or its file
	Failure  string         // of a follow-up: what the message says about it
	Cleared  bool           // of a removal: the event was never sent, so the message's error is void

	epoch   int64 // of the lease under which it was found out
	dropped bool  // the entry is gone, or was final before
	counts  bool  // …and counts all the same
}

// Report stores the outcome of an attempt soon, without a flush of its own. Should the process die before, the attempt
// is repeated under its transaction id. It returns the outcome's number, see [Store.Committed].
func (s *Store) Report(o *Outcome) int64 { return s.w.report(o) }

// Committed returns up to which number the reported outcomes are committed.
func (s *Store) Committed() int64 { return s.w.committed.Load() }

// Settle returns when all outcomes reported before are committed, or cannot be.
func (s *Store) Settle(ctx context.Context) error { return s.w.do(ctx, &request{kind: settle}) }

// storeOutcome writes what an attempt has come to. An entry that somebody made final meanwhile stays so, except where the
// attempt says otherwise.
func (w *writer) storeOutcome(ctx context.Context, o *Outcome) error {
	o.dropped, o.counts = false, true
	e := &o.Entry
	if w.d.numbered { // which takes no NUL; a homeserver may send one
		e.Error, e.Code, e.EventID = message.Clean(e.Error), message.Clean(e.Code), message.Clean(e.EventID)
		e.Device, o.Failure = message.Clean(e.Device), message.Clean(o.Failure)
	}
	if w.d.forUpdate != "" && e.After > 0 { // its message may be withdrawn elsewhere at this moment, with all that follows it
		if err := w.sql.exec(ctx, `SELECT 1 FROM outbox WHERE id = ?`+w.d.forUpdate, e.After); err != nil {
			return err
		}
	}
	n, err := w.updateEntry(ctx, o)
	if err != nil {
		return err
	}
	if n == 0 {
		o.dropped, o.counts = true, false
		return w.late(ctx, o)
	}
	if o.FollowUp != nil {
		if err := w.sql.followUp(ctx, o.FollowUp); err != nil {
			return err
		}
	}
	if e.Kind == message.Send || e.State.Pending() {
		return nil
	}
	return w.storeTarget(ctx, o)
}

func (w *writer) updateEntry(ctx context.Context, o *Outcome) (rows int64, err error) {
	e := &o.Entry
	var r sql.Result
	if e.State == message.StateSent && e.Error == "" {
		r, err = w.sql.sent.ExecContext(ctx, e.Attempts, e.EventID, o.At, e.ID)
	} else {
		var final int64
		if !e.State.Pending() {
			final = o.At
		}
		r, err = w.sql.outcome.ExecContext(ctx, string(e.State), e.Attempts, e.NextAt, e.FirstAttemptAt, e.Device, e.EventType, e.Wire,
			e.Cut, e.Error, e.Code, e.EventID, final, e.ID)
	}
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// late notes the outcome of an attempt whose message was withdrawn or given up while it was made: an event that is in the
// room was sent, and is removed again if nobody wants it.
func (w *writer) late(ctx context.Context, o *Outcome) error {
	e := &o.Entry
	var state message.State
	var event string
	err := w.sql.found.QueryRowContext(ctx, e.ID).Scan(&state, &event)
	if errors.Is(err, sql.ErrNoRows) || err == nil && state != message.StateCancelled && e.State != message.StateSent {
		return nil
	}
	if err != nil {
		return err
	}
	if e.State == message.StateSent && state == message.StateSent && event == e.EventID { // it is stored already: the answer to the commit was lost
		o.counts = false
		return nil
	}
	remove := &message.Entry{Kind: message.Redact, After: e.MessageID(), Room: e.Room, Txn: message.NewTxn(), QueuedAt: o.At}
	switch {
	case e.Kind == message.Redact:
		return w.storeTarget(ctx, o)
	case e.State == message.StateSent:
		if err := w.sql.exec(ctx, `UPDATE outbox SET state = 'sent', event_id = ?, error = '', code = '' WHERE id = ?`, e.EventID, e.ID); err != nil {
			return err
		}
		remove.EventID, o.counts = e.EventID, true
	case e.FirstAttemptAt == 0:
		return nil
	default:
		if err := w.sql.exec(ctx, `UPDATE outbox SET first_attempt_at = ?, device = ?, error = ? WHERE id = ?`, e.FirstAttemptAt, e.Device, message.InDoubt, e.ID); err != nil {
			return err
		}
	}
	switch {
	case state == message.StateCancelled:
		return w.sql.followUp(ctx, remove)
	case o.FollowUp != nil: // what is left of the message is given up in its turn, and the message says so
		return w.sql.followUp(ctx, o.FollowUp)
	}
	return nil
}

// storeTarget writes what a follow-up means for its message, unless that was asked to be delivered again meanwhile.
func (w *writer) storeTarget(ctx context.Context, o *Outcome) error {
	e := &o.Entry
	switch {
	case e.Kind == message.Redact && e.State == message.StateSent:
		return w.sql.exec(ctx, `UPDATE outbox SET state = 'redacted', event_id = ?, error = '', code = '' WHERE id = ? AND final_at > 0 AND (event_id = ? OR event_id = '')`,
			e.EventID, e.After, e.EventID)
	case o.Cleared:
		return w.sql.exec(ctx, `UPDATE outbox SET error = '' WHERE id = ? AND final_at > 0 AND state = 'cancelled'`, e.After)
	case o.Failure != "":
		return w.sql.exec(ctx, `UPDATE outbox SET error = ? WHERE id = ? AND final_at > 0`, o.Failure, e.After)
	}
	return nil
}

// followUp adds an entry that follows a message.
func (s *statements) followUp(ctx context.Context, e *message.Entry) error {
	return s.exec(ctx, `INSERT INTO outbox (kind, after, room, state, txn, queued_at, event_id) VALUES (?, ?, ?, 'queued', ?, ?, ?)`,
		int64(e.Kind), e.After, e.Room, e.Txn, e.QueuedAt, e.EventID)
}

// exec runs a statement that is too rare to be prepared.
func (s *statements) exec(ctx context.Context, text string, args ...any) error {
	_, err := s.conn.ExecContext(ctx, s.d.bind(text), args...)
	return err
}
