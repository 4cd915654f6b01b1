package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"slipway/relay/internal/lease"
	"slipway/relay/internal/post"
)

// Outcome is a fact that an attempt has found, with what [post.Step] made of it.
type Outcome struct {
	Was     post.Version // of the entry before the step
	Fact    post.Fact
	At      int64
	Entry   post.Entry
	Others  []post.Entry
	Effects []post.Effect

	epoch   int64 // of the lease under which it was found out
	dropped bool  // the entry is gone or was changed by somebody else
}

// NewOutcome takes the step that a fact means for an entry.
func NewOutcome(e post.Entry, f post.Fact, at int64) *Outcome {
	o := &Outcome{Was: e.Version(), Fact: f, At: at}
	o.Entry, o.Others, o.Effects = post.Step(e, f, at)
	return o
}

// Spreads reports whether the outcome adds or ends other entries of the room.
func (o *Outcome) Spreads() bool { return len(o.Others) > 0 }

// Record stores an outcome soon, without a flush of its own. If the process dies before, the attempt is repeated under its
// transaction id.
func (s *Store) Record(o *Outcome) { s.w.record(o) }

// Settle returns when all outcomes recorded before are committed, or cannot be.
func (s *Store) Settle(ctx context.Context) error { return s.w.do(ctx, &part{settle: true}) }

// storeOutcomes writes results, unless they were found out under a lease that another relay has now.
func (tx *Tx) storeOutcomes(all []*Outcome) error {
	held, member := true, tx.w.member
	if member.Shared() && len(all) > 0 {
		var err error
		if held, err = lease.Fence(tx.ctx, tx.sql.conn, member.Epoch()); err != nil {
			return err
		}
	}
	ours := make([]*Outcome, 0, len(all))
	for _, o := range all {
		if o.dropped = !held || member.Shared() && o.epoch != member.Epoch(); !o.dropped {
			ours = append(ours, o)
		}
	}
	return tx.storeEach(ours)
}

// storeEach writes results in their order, those of messages that were sent together.
func (tx *Tx) storeEach(all []*Outcome) error {
	for len(all) > 0 {
		n := slices.IndexFunc(all, func(o *Outcome) bool { return !o.plain() })
		if n < 0 {
			n = len(all)
		}
		var err error
		if n > 0 {
			err = tx.storeSent(all[:n])
		} else {
			n, err = 1, tx.storeOutcome(all[0])
		}
		if err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// plain reports whether a message was sent and nothing else has to be stored.
func (o *Outcome) plain() bool {
	return o.Entry.Kind == post.KindMessage && o.Entry.State == post.StateSent && o.Was.State.Pending() && o.Entry.Error == "" && len(o.Others) == 0
}

var sentText = many{
	before: `UPDATE outbox SET state = ` + isSent + `, attempts = n.column2, event_id = n.column3, final_at = n.column4, next_at = 0, error = '', code = '', wire = NULL, root = n.column8 FROM (VALUES `,
	row:    []string{`CAST(? AS BIGINT)`, `CAST(? AS BIGINT)`, `CAST(? AS TEXT)`, `CAST(? AS BIGINT)`, `CAST(? AS TEXT)`, `CAST(? AS BIGINT)`, `CAST(? AS BIGINT)`, `CAST(? AS TEXT)`},
	after:  `) AS n WHERE outbox.id = n.column1 AND outbox.state = n.column5 AND outbox.attempts = n.column6 AND outbox.revised_at = n.column7 RETURNING outbox.id`,
}

// storeSent writes results that are plain. One whose entry was changed meanwhile is stored by itself.
func (tx *Tx) storeSent(all []*Outcome) error {
	rows, stored := make([][]any, len(all)), make(map[int64]bool, len(all))
	for i, o := range all {
		o.dropped = false
		rows[i] = []any{o.Entry.ID, o.Entry.Attempts, post.Clean(o.Entry.EventID), o.At, string(o.Was.State), o.Was.Attempts, o.Was.RevisedAt, o.Entry.Root} // PostgreSQL takes no NUL
	}
	err := tx.sql.query(tx.ctx, tx.sql.sent, rows, func(r *sql.Rows) error {
		var id int64
		err := r.Scan(&id)
		stored[id] = true
		return err
	})
	if err != nil {
		return err
	}
	for _, o := range all {
		if stored[o.Entry.ID] {
			delete(stored, o.Entry.ID) // a second result of the same entry finds it final
			tx.count(&o.Entry, o.Effects, o.At)
		} else if err := tx.storeOutcome(o); err != nil {
			return err
		}
	}
	return nil
}

// storeOutcome saves what a step made of an entry. If somebody has changed the entry meanwhile, the step is taken again.
func (tx *Tx) storeOutcome(o *Outcome) error {
	o.dropped = false
	if o.Entry.Target > 0 { // its message may be withdrawn elsewhere at this moment, with all that follows it
		if err := tx.sql.d.lock(tx.ctx, tx.sql.conn, "outbox", []int64{o.Entry.Target}); err != nil {
			return err
		}
	}
	saved, err := tx.saveEntry(&o.Entry, o.Was)
	if err != nil {
		return err
	}
	if saved {
		tx.count(&o.Entry, o.Effects, o.At)
		return tx.spread(&o.Entry, o.Others, o.Effects, o.At)
	}
	o.dropped = true
	now, err := tx.Entry(o.Entry.ID)
	if IsMissing(err) || err == nil && now.Version() == o.Entry.Version() { // the answer to an earlier commit was lost
		return nil
	}
	if err != nil {
		return err
	}
	_, err = tx.Step(now, o.Fact, o.At)
	return err
}

// Step takes a step with an entry that was loaded in the transaction, and returns what it made of that. It has no effects if the entry
// was changed since.
func (tx *Tx) Step(e post.Entry, f post.Fact, at int64) (post.Entry, error) {
	was := e.Version()
	now, others, effects := post.Step(e, f, at)
	if saved, err := tx.saveEntry(&now, was); !saved || err != nil {
		return e, err
	}
	tx.changed(now.Room, Altered)
	if !now.State.Awaited() {
		tx.final = append(tx.final, now.MessageID())
	}
	tx.count(&now, effects, at)
	return now, tx.spread(&now, others, effects, at)
}

// spread saves what a step made besides its entry.
func (tx *Tx) spread(e *post.Entry, others []post.Entry, effects []post.Effect, at int64) error {
	for _, o := range others { // copies: a retry of the transaction must find new entries without an ID
		var err error
		if o.ID == 0 {
			err = tx.sql.insertEntries(tx.ctx, &o)
		} else {
			err = tx.endEntry(&o)
		}
		if err != nil {
			return err
		}
		if o.Room != e.Room {
			tx.changed(o.Room, Altered)
		}
	}
	for _, effect := range effects {
		tell, ok := effect.(post.Tell)
		if !ok {
			continue
		}
		if err := tx.tell(e.Target, tell.Fact, at); err != nil {
			return err
		}
	}
	return nil
}

// tell applies a fact that comes from a follow-up to a message, unless that is gone.
func (tx *Tx) tell(id int64, f post.Fact, at int64) error {
	target, err := tx.Entry(id)
	if IsMissing(err) {
		return nil
	}
	if err == nil {
		_, err = tx.Step(target, f, at)
	}
	return err
}

// saveEntry saves an entry if the stored one has a version. It reports whether it had.
func (tx *Tx) saveEntry(e *post.Entry, was post.Version) (bool, error) {
	// PostgreSQL takes no NUL; a homeserver may send one.
	e.Error, e.Code, e.EventID, e.Device = post.Clean(e.Error), post.Clean(e.Code), post.Clean(e.EventID), post.Clean(e.Device)
	values := append(stepColumns.of(e), e.ID, string(was.State), was.Attempts, was.RevisedAt)
	r, err := tx.sql.outcome.ExecContext(tx.ctx, values...)
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	if err == nil && n == 1 && e.FinalAt != 0 {
		err = tx.freeAttachment(e)
	}
	return n == 1, err
}

// endEntry saves the end of an entry that a step with another one ended.
func (tx *Tx) endEntry(e *post.Entry) error {
	return errors.Join(tx.exec(`UPDATE outbox SET state = ?, final_at = ? WHERE id = ? AND final_at = 0`, string(e.State), e.FinalAt, e.ID), tx.freeAttachment(e))
}
