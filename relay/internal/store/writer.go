package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"gorm.io/gorm"
)

// errOutcomes says that results of deliveries could not be written. Nothing else of the batch was then tried.
var errOutcomes = errors.New("cannot store the results of deliveries")

// ErrClosed says that the store takes nothing any more.
var ErrClosed = errors.New("the database is closed")

const (
	maxBatch      = 256                    // messages in one commit
	outcomeDelay  = 10 * time.Millisecond  // how long results wait for company
	outcomeCrowd  = 128                    // …unless so many are there
	statsInterval = time.Second            // how often counts are written
	retryDelay    = 250 * time.Millisecond // before results whose commit failed are tried again
)

// Commit tells what has become durable in one commit, or that results could not be stored: they are tried again.
type Commit struct {
	Err      error
	Accepted []*Entry
	Outcomes []*Outcome
	Duration time.Duration
}

// writer owns the only connection that writes.
type writer struct {
	conn     *sql.Conn
	rows     *gorm.DB // over conn, inside the writer's transaction
	sql      *statements
	onCommit func(Commit)

	intake  chan *acceptance
	updates chan *update
	kick    chan struct{} // results have waited long enough
	stop    chan struct{}
	stopped chan struct{}
	stopper sync.Once

	mu       sync.Mutex
	outcomes []*Outcome
	due      *time.Timer // wakes the writer for them

	// Touched by the writing goroutine only.
	lastID   int64
	flushing bool // the connection flushes each commit
	counts   counts
	countDue *time.Timer // when the counts are to be written
}

// acceptance is a message waiting for its commit.
type acceptance struct {
	entry   *Entry
	key     *Key
	receipt Receipt
	done    chan error
}

// update is a change of anything else.
type update struct {
	change func(tx *Tx) error
	err    error
	done   chan error
}

// Tx is the transaction that an update runs in.
type Tx struct {
	*gorm.DB
	w *writer
}

// NextID returns an id for a new row of the outbox.
func (tx *Tx) NextID() int64 {
	tx.w.lastID++
	return tx.w.lastID
}

type batch struct {
	accepts  []*acceptance
	updates  []*update
	outcomes []*Outcome
	counted  bool // the counts so far are part of it
}

func newWriter(ctx context.Context, conn *sql.Conn, onCommit func(Commit)) (*writer, error) {
	w := &writer{
		conn: conn, onCommit: onCommit, flushing: true, counts: counts{},
		intake: make(chan *acceptance, maxBatch), updates: make(chan *update),
		kick: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
		countDue: time.NewTimer(statsInterval),
	}
	w.countDue.Stop()
	w.due = time.AfterFunc(outcomeDelay, w.wake)
	var err error
	if w.rows, err = gormOver(conn); err != nil {
		return nil, err
	}
	if w.sql, err = prepare(ctx, conn); err != nil {
		return nil, err
	}
	if w.lastID, err = lastID(ctx, conn); err != nil {
		return nil, err
	}
	go w.run()
	return w, nil
}

// lastID returns the highest id ever given: ids of rows that are gone are not used again.
func lastID(ctx context.Context, conn *sql.Conn) (id int64, err error) {
	err = conn.QueryRowContext(ctx, `SELECT max(coalesce((SELECT max(id) FROM messages), 0), coalesce((SELECT max(id) FROM outbox), 0),
		coalesce((SELECT CAST(value AS INTEGER) FROM settings WHERE key = 'last_id'), 0))`).Scan(&id)
	return id, err
}

// Accept stores a message with its outbox row and returns when both are flushed to disk. e gets its id. If ctx is
// done before that, the message may have been stored all the same.
func (s *Store) Accept(ctx context.Context, e *Entry, key *Key) (Receipt, error) {
	a := &acceptance{entry: e, key: key, done: make(chan error, 1)}
	select {
	case s.w.intake <- a:
	case <-s.w.stop:
		return Receipt{}, ErrClosed
	case <-ctx.Done():
		return Receipt{}, ctx.Err()
	}
	select {
	case err := <-a.done:
		return a.receipt, err
	case <-s.w.stopped:
		return a.late()
	case <-ctx.Done():
		return Receipt{}, ctx.Err()
	}
}

// late is the answer to an acceptance that raced with the end of the writer.
func (a *acceptance) late() (Receipt, error) {
	select {
	case err := <-a.done:
		return a.receipt, err
	default:
		return Receipt{}, ErrClosed
	}
}

// Update runs change inside the writer's next transaction and returns when it is flushed to disk. If change fails,
// what it did is undone and nothing else.
func (s *Store) Update(ctx context.Context, change func(tx *Tx) error) error {
	u := &update{change: change, done: make(chan error, 1)}
	select {
	case s.w.updates <- u:
	case <-s.w.stop:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	return <-u.done
}

// Report stores the outcome of an attempt soon, without a flush of its own. Should the process die before, the
// attempt is repeated under its transaction id. It never blocks.
func (s *Store) Report(o *Outcome) {
	w := s.w
	w.mu.Lock()
	w.outcomes = append(w.outcomes, o)
	switch len(w.outcomes) {
	case 1:
		w.due.Reset(outcomeDelay) // the writer need not wake up for it before
	case outcomeCrowd:
		w.wake()
	}
	w.mu.Unlock()
}

// wake makes the writer commit the results that wait.
func (w *writer) wake() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// close commits what is waiting and ends the writer.
func (w *writer) close() error {
	w.stopper.Do(func() { close(w.stop) })
	<-w.stopped
	w.mu.Lock()
	left := len(w.outcomes)
	w.mu.Unlock()
	err := w.conn.Close()
	if left > 0 {
		err = errors.Join(fmt.Errorf("%d results of deliveries could not be stored", left), err)
	}
	return err
}

func (w *writer) run() {
	defer close(w.stopped)
	for {
		b, more := w.gather()
		w.commit(b)
		if !more {
			w.countDue.Stop()
			w.commit(&batch{counted: true}) // what the last batch added
			return
		}
	}
}

// gather waits for work and takes all of it that is there. more is false for the last batch.
func (w *writer) gather() (b *batch, more bool) {
	b = &batch{}
	more = w.await(b)
	for len(b.accepts) < maxBatch {
		select {
		case a := <-w.intake:
			b.accepts = append(b.accepts, a)
			continue
		case u := <-w.updates:
			b.updates = append(b.updates, u)
			continue
		default:
		}
		break
	}
	w.mu.Lock()
	b.outcomes, w.outcomes = w.outcomes, nil
	w.due.Stop()
	w.mu.Unlock()
	return b, more
}

// await returns when there is a reason to commit.
func (w *writer) await(b *batch) (more bool) {
	select {
	case a := <-w.intake:
		b.accepts = append(b.accepts, a)
	case u := <-w.updates:
		b.updates = append(b.updates, u)
	case <-w.kick:
	case <-w.countDue.C:
		b.counted = true
	case <-w.stop:
		return false
	}
	return true
}

// commit writes a batch and tells everyone concerned.
func (w *writer) commit(b *batch) {
	if len(b.accepts)+len(b.updates)+len(b.outcomes) == 0 && !b.counted {
		return
	}
	began := time.Now()
	err := w.transact(b)
	if errors.Is(err, errOutcomes) && len(b.accepts)+len(b.updates) > 0 {
		w.putBack(b.outcomes, err) // nobody else shall fail for them
		b.outcomes = nil
		err = w.transact(b)
	}
	if err == nil {
		w.announce(b, time.Since(began))
	} else {
		w.putBack(b.outcomes, err)
		if b.counted {
			w.countDue.Reset(statsInterval)
		}
	}
	for _, a := range b.accepts {
		a.done <- err
	}
	for _, u := range b.updates {
		u.done <- errors.Join(err, u.err)
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
	if err := w.flush(ctx, len(b.accepts)+len(b.updates) > 0); err != nil {
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
	if err := w.write(ctx, b); err != nil {
		return err
	}
	_, err = w.sql.commit.ExecContext(ctx)
	return err
}

func (w *writer) write(ctx context.Context, b *batch) error {
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
func (w *writer) apply(ctx context.Context, u *update) error {
	if _, err := w.sql.savepoint.ExecContext(ctx); err != nil {
		return err
	}
	u.err = u.change(&Tx{DB: w.rows.WithContext(ctx), w: w})
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
