package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
)

const (
	statsInterval = time.Second            // how often counts are written
	retryDelay    = 250 * time.Millisecond // before results whose commit failed are tried again
)

// errOutcomes says that results of deliveries could not be written. Nothing else of the batch was then tried.
var errOutcomes = errors.New("cannot store the results of deliveries")

// Commit tells what has become durable in one commit, or that results could not be stored: they are tried again.
type Commit struct {
	Err      error
	Accepted []*Entry
	Outcomes []*Outcome
	Duration time.Duration
}

// Tx is the transaction that a change runs in.
type Tx struct {
	*gorm.DB
	w *writer
}

// NextID returns an id for a new row of the outbox.
func (tx *Tx) NextID() int64 {
	tx.w.lastID++
	return tx.w.lastID
}

// batch is what goes into one commit.
type batch struct {
	requests []*request
	accepts  []*request // of them
	updates  []*request // of them
	outcomes []*Outcome
	counted  bool // the counts so far are part of it
}

// commit writes a batch and announces it. What fails is noted in its requests.
func (w *writer) commit(b *batch) {
	if len(b.requests)+len(b.outcomes) == 0 && !b.counted {
		return
	}
	began := time.Now()
	err := w.transact(b)
	if errors.Is(err, errOutcomes) && len(b.requests) > 0 {
		w.putBack(b.outcomes, err) // nobody else shall fail for them
		b.outcomes = nil
		err = w.transact(b)
	}
	if err == nil {
		w.announce(b, time.Since(began))
		return
	}
	w.putBack(b.outcomes, err)
	if b.counted {
		w.countDue.Reset(statsInterval)
	}
	for _, r := range b.requests {
		r.err = errors.Join(err, r.err)
	}
}

// announce tells what a batch that is committed has made durable.
func (w *writer) announce(b *batch, took time.Duration) {
	c := Commit{Outcomes: b.outcomes, Duration: took}
	for _, a := range b.accepts {
		if !a.receipt.Replay && !a.receipt.Conflict {
			c.Accepted = append(c.Accepted, a.entry)
		}
	}
	w.count(b, c)
	w.onCommit(c)
}

// putBack keeps results whose commit failed for a later one.
func (w *writer) putBack(outcomes []*Outcome, err error) {
	if len(outcomes) == 0 {
		return
	}
	w.onCommit(Commit{Err: err})
	w.mu.Lock()
	w.outcomes = append(outcomes, w.outcomes...)
	w.due.Reset(retryDelay)
	w.mu.Unlock()
}

// transact writes a batch in one transaction. Without a message or an update in it, nothing in it needs a flush.
func (w *writer) transact(b *batch) (err error) {
	ctx := context.Background()
	if err := w.flush(ctx, len(b.requests) > 0); err != nil {
		return err
	}
	if _, err := w.sql.begin.ExecContext(ctx); err != nil {
		return err
	}
	before := w.lastID
	defer func() {
		if err != nil {
			_, _ = w.sql.rollback.ExecContext(ctx) // fails if SQLite has rolled back by itself
			w.lastID = before
		}
	}()
	if err := w.store(ctx, b); err != nil {
		return err
	}
	_, err = w.sql.commit.ExecContext(ctx)
	return err
}

func (w *writer) store(ctx context.Context, b *batch) error {
	if err := w.storeOutcomes(ctx, b.outcomes); err != nil {
		return errors.Join(errOutcomes, err)
	}
	if err := w.storeMessages(ctx, b.accepts); err != nil {
		return fmt.Errorf("store messages: %w", err)
	}
	for _, u := range b.updates {
		if err := w.apply(ctx, u); err != nil {
			return err
		}
	}
	if b.counted {
		return w.storeCounts(ctx)
	}
	return nil
}

// apply runs one update within a savepoint.
func (w *writer) apply(ctx context.Context, u *request) error {
	if _, err := w.sql.savepoint.ExecContext(ctx); err != nil {
		return err
	}
	u.err = u.run(&Tx{DB: w.rows.WithContext(ctx), w: w})
	if u.err != nil {
		if _, err := w.sql.undo.ExecContext(ctx); err != nil {
			return errors.Join(u.err, err)
		}
	}
	_, err := w.sql.release.ExecContext(ctx)
	return err
}

// flush turns the flush of each commit on or off.
func (w *writer) flush(ctx context.Context, on bool) error {
	if w.flushing == on {
		return nil
	}
	stmt := w.sql.lazy
	if on {
		stmt = w.sql.full
	}
	if _, err := stmt.ExecContext(ctx); err != nil {
		return err
	}
	w.flushing = on
	return nil
}

// run runs a change. It may be on the goroutine of somebody else's request, so it may not panic.
func (r *request) run(tx *Tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a change of the database: %v", p)
		}
	}()
	return r.change(tx)
}
