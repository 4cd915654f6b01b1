package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"slipway/relay/internal/lease"
)

// Tx is the transaction that a change runs in. Its methods are those of the nouns.
type Tx struct {
	db      *gorm.DB
	ctx     context.Context
	sql     *statements
	w       *writer
	changes []Change
	final   []int64 // messages that nobody waits for any more
	counts  counts  // what happened to messages
	timed   bool    // what waits for a time may be due earlier
	edited  bool    // it has changed users, clients, applications or rooms
}

func (w *writer) newTx(ctx context.Context) *Tx {
	return &Tx{db: w.rows.WithContext(ctx), ctx: ctx, sql: w.sql, w: w, counts: counts{}}
}

// batch is what goes into one commit.
type batch struct {
	parts    []*part
	outcomes []*Outcome
	settles  bool  // it holds what results must come before
	txs      []*Tx // of the entries, and of each change
}

// add takes a part in, unless it was taken back.
func (b *batch) add(p *part) {
	if !p.state.CompareAndSwap(waiting, begun) {
		return
	}
	b.parts = append(b.parts, p)
	b.settles = b.settles || p.change != nil || p.settle
}

// commit writes a batch and wakes its waiters, which get its error. If it is refused, what it holds is committed one by one: nobody fails
// for what another has sent.
func (w *writer) commit(b *batch) error {
	if len(b.parts)+len(b.outcomes) == 0 {
		return nil
	}
	err := w.commitCrowd(b)
	if err == nil {
		err = w.insist(b)
	}
	if err != nil && len(b.parts)+min(len(b.outcomes), 1) > 1 && w.conn != nil {
		w.commitEach(b, err)
		return err
	}
	if err == nil {
		w.flying(nil)
		w.feed.announce(b)
	} else {
		w.putBack(b.outcomes, err)
	}
	b.finish(err)
	return err
}

// commitEach commits one by one what is in a batch that was refused. Parts that have no turn in time fail with the batch's error, as when the
// database is slow rather than strict.
func (w *writer) commitEach(b *batch, err error) {
	began := time.Now()
	settled := w.commit(&batch{outcomes: b.outcomes})
	for _, p := range b.parts {
		one := &batch{parts: []*part{p}}
		switch {
		case p.settle:
			one.finish(settled)
		case w.conn == nil || time.Since(began) > transactWithin:
			one.finish(err)
		default:
			_ = w.commit(one) // the part has the error
		}
	}
}

// finish gives the parts their result.
func (b *batch) finish(err error) {
	for _, p := range b.parts {
		if err != nil {
			p.err = errors.Join(err, p.err)
		}
		if p.done != nil {
			close(p.done)
		}
	}
}

// commitCrowd writes results of which there are too many for one transaction, as after a time without a database, except the last ones.
func (w *writer) commitCrowd(b *batch) error {
	for len(b.outcomes) > maxOutcomes {
		first := &batch{outcomes: b.outcomes[:maxOutcomes]}
		if err := w.insist(first); err != nil {
			return err
		}
		b.outcomes = b.outcomes[maxOutcomes:]
		w.flying(b.outcomes)
		w.feed.announce(first)
	}
	return nil
}

// putBack keeps results whose commit failed for a later one.
func (w *writer) putBack(all []*Outcome, err error) {
	if len(all) == 0 {
		return
	}
	w.feed.complain(err)
	w.mu.Lock()
	w.outcomes, w.inFlight = append(all, w.outcomes...), nil
	w.arm(retryDelay)
	w.mu.Unlock()
}

// maxTries is how often a transaction that fails because of others is tried.
const maxTries = 5

// insist writes a batch. A server may be away, or let the transaction fail because of another relay's.
func (w *writer) insist(b *batch) error {
	ctx := context.Background()
	if w.d.within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.d.within)
		defer cancel()
	}
	var v verdict
	for try := range maxTries {
		if try > 0 {
			time.Sleep(50*time.Millisecond + rand.N(100*time.Millisecond)) // the other relay takes the lock that it waited for
		}
		if err := w.connect(ctx); err != nil {
			return err
		}
		if v = w.d.judge(w.conn, w.transact(ctx, b)); !v.again {
			break
		}
	}
	if v.lost {
		w.disconnect()
	}
	if v.lost && ctx.Err() != nil { // those who have waited for this commit must not wait as long for theirs
		w.tried, w.away = time.Now(), errAway(v.err)
	}
	return v.err
}

// transact writes a batch in one transaction.
func (w *writer) transact(ctx context.Context, b *batch) (err error) {
	if _, err := w.sql.begin.ExecContext(ctx); err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil { // the goroutine may belong to any caller
			err = fmt.Errorf("panic in a commit: %v", p)
		}
		if err != nil {
			_, _ = w.sql.rollback.ExecContext(ctx) // fails if the database has rolled back by itself, or is away
		}
	}()
	if err := w.store(ctx, b); err != nil {
		return err
	}
	_, err = w.sql.commit.ExecContext(ctx)
	return err
}

func (w *writer) store(ctx context.Context, b *batch) error {
	tx := w.newTx(ctx)
	b.txs = append(b.txs[:0], tx)
	if err := tx.storeOutcomes(b.outcomes); err != nil {
		return fmt.Errorf("store results of deliveries: %w", err)
	}
	if err := tx.storeIncoming(b.parts); err != nil {
		return fmt.Errorf("store messages: %w", err)
	}
	for _, p := range b.parts {
		if p.change == nil {
			continue
		}
		if err := w.change(ctx, b, p); err != nil {
			return err
		}
	}
	return w.sql.storeCounts(ctx, b.counts())
}

// change runs one change within a savepoint.
func (w *writer) change(ctx context.Context, b *batch, p *part) error {
	if _, err := w.sql.savepoint.ExecContext(ctx); err != nil {
		return err
	}
	tx := w.newTx(ctx)
	p.err = run(p.change, tx)
	if w.d.judge(nil, p.err).again { // with everything else
		return p.err
	}
	if p.err == nil {
		b.txs = append(b.txs, tx)
	} else if _, err := w.sql.undo.ExecContext(ctx); err != nil {
		return errors.Join(p.err, err)
	}
	_, err := w.sql.release.ExecContext(ctx)
	return err
}

// run runs a change. Others are committed with it, so a panic is its own failure only.
func run(change func(*Tx) error, tx *Tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a change of the database: %v", p)
		}
	}()
	return change(tx)
}

// Update runs change inside the writer's next transaction and returns when it is flushed to disk. If change fails,
// what it did is undone and nothing else.
func (s *Store) Update(ctx context.Context, change func(tx *Tx) error) error {
	return s.w.do(ctx, &part{change: change})
}

// exec runs a statement.
func (tx *Tx) exec(text string, args ...any) error { return tx.db.Exec(text, args...).Error }

// execCount runs a statement and returns how many rows it touched.
func (tx *Tx) execCount(text string, args ...any) (int64, error) {
	r := tx.db.Exec(text, args...)
	return r.RowsAffected, r.Error
}

// upsert stores a row of a table, in place of the one that has its key.
func (tx *Tx) upsert(table string, row any, key ...string) error {
	columns := make([]clause.Column, len(key))
	for i, name := range key {
		columns[i].Name = name
	}
	return tx.db.Table(table).Clauses(clause.OnConflict{Columns: columns, UpdateAll: true}).Create(row).Error
}

// changed records that the entries of a room have changed; room 0 stands for all rooms.
func (tx *Tx) changed(room int64, kind ChangeKind) {
	tx.changes = append(tx.changes, Change{Room: room, Kind: kind})
}

// IsMissing reports whether err says that there is no such row.
func IsMissing(err error) bool {
	return errors.Is(err, gorm.ErrRecordNotFound) || errors.Is(err, sql.ErrNoRows)
}

// Release gives the lease back after change, both or none, and wakes those who wait for it.
func (s *Store) Release(ctx context.Context, change func(*Tx) error) error {
	err := s.Lead(ctx, func(tx *Tx) error { return errors.Join(change(tx), tx.exec(lease.ReleaseText)) })
	if err == nil {
		s.Announce(lease.Note{Lease: true})
	}
	return err
}

// Lead is [Store.Update] for changes that only the delivering relay may make. A single relay always delivers.
func (s *Store) Lead(ctx context.Context, change func(tx *Tx) error) error {
	return s.leadSince(ctx, s.Epoch(), change)
}

// leadSince is [Store.Lead] for what was found out under the lease of an epoch.
func (s *Store) leadSince(ctx context.Context, epoch int64, change func(tx *Tx) error) error {
	if !s.Shared() {
		return s.Update(ctx, change)
	}
	return s.Update(ctx, func(tx *Tx) error {
		if held, err := lease.Fence(tx.ctx, tx.sql.conn, epoch); err != nil || !held {
			return errors.Join(err, lease.ErrNotHeld)
		}
		return change(tx)
	})
}
