package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"gorm.io/gorm"
)

// ErrClosed says that the store takes nothing any more.
var ErrClosed = errors.New("the database is closed")

const (
	maxBatch     = 256                   // requests in one commit
	outcomeDelay = 10 * time.Millisecond // how long results wait for company
	outcomeCrowd = 128                   // …unless so many are there
)

// writer owns the only connection that writes. It has no goroutine of its own: who comes while nobody writes does a
// round of writing, for itself and all who wait by then, and passes the turn on. That spares a quiet relay two
// changes of goroutine a message.
type writer struct {
	conn     *sql.Conn
	rows     *gorm.DB // over conn, inside the writer's transaction
	sql      *statements
	onCommit func(Commit)

	mu       sync.Mutex
	idle     sync.Cond // nobody writes any more
	busy     bool      // somebody writes
	closed   bool
	again    bool // somebody has to write once more
	queue    []*request
	outcomes []*Outcome
	overdue  bool        // the counts are to be written
	due      *time.Timer // of the outcomes
	countDue *time.Timer // of the counts

	// Touched by whoever writes only.
	lastID   int64
	flushing bool // the connection flushes each commit
	counts   counts
}

// request is a message to be stored, or a change of anything else.
type request struct {
	entry   *Entry
	key     *Key
	receipt Receipt
	change  func(tx *Tx) error

	err   error
	leads bool      // it was told to write
	told  chan turn // what to do while somebody else writes
}

// turn is what somebody who waits is told.
type turn int

const (
	done turn = iota // your request is committed, or has failed
	lead             // write, for all who wait
)

func newWriter(ctx context.Context, conn *sql.Conn) (*writer, error) {
	w := &writer{conn: conn, onCommit: func(Commit) {}, flushing: true, counts: counts{}}
	w.idle.L = &w.mu
	w.due = time.AfterFunc(time.Hour, func() { w.write(false) })
	w.countDue = time.AfterFunc(time.Hour, func() { w.write(true) })
	w.due.Stop()
	w.countDue.Stop()
	var err error
	if w.rows, err = gormOver(conn); err != nil {
		return nil, err
	}
	if w.sql, err = prepare(ctx, conn); err != nil {
		return nil, err
	}
	w.lastID, err = lastID(ctx, conn)
	return w, err
}

// lastID returns the highest id ever given: ids of rows that are gone are not used again.
func lastID(ctx context.Context, conn *sql.Conn) (id int64, err error) {
	err = conn.QueryRowContext(ctx, `SELECT max(coalesce((SELECT max(id) FROM messages), 0), coalesce((SELECT max(id) FROM outbox), 0),
		coalesce((SELECT CAST(value AS INTEGER) FROM settings WHERE key = 'last_id'), 0))`).Scan(&id)
	return id, err
}

// Accept stores a message with its outbox row and returns when both are flushed to disk. e gets its id.
func (s *Store) Accept(ctx context.Context, e *Entry, key *Key) (Receipt, error) {
	r := &request{entry: e, key: key}
	err := s.w.do(ctx, r)
	return r.receipt, err
}

// Update runs change inside the writer's next transaction and returns when it is flushed to disk. If change fails,
// what it did is undone and nothing else.
func (s *Store) Update(ctx context.Context, change func(tx *Tx) error) error {
	return s.w.do(ctx, &request{change: change})
}

// Report stores the outcome of an attempt soon, without a flush of its own. Should the process die before, the
// attempt is repeated under its transaction id.
func (s *Store) Report(o *Outcome) {
	w := s.w
	w.mu.Lock()
	w.outcomes = append(w.outcomes, o)
	n := len(w.outcomes)
	if n == 1 {
		w.due.Reset(outcomeDelay)
	}
	w.mu.Unlock()
	if n == outcomeCrowd {
		w.write(false)
	}
}

// do has a request committed, by whoever writes or by writing itself. When ctx is done before anybody has begun
// with it, it is taken back.
func (w *writer) do(ctx context.Context, r *request) error {
	r.told = make(chan turn, 1)
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ErrClosed
	}
	w.queue = append(w.queue, r)
	if !w.busy {
		w.busy = true
		w.mu.Unlock()
		w.round()
		return r.err
	}
	w.mu.Unlock()
	return w.wait(ctx, r)
}

// wait waits for a request that somebody else commits, or for the turn to do so.
func (w *writer) wait(ctx context.Context, r *request) error {
	var t turn
	select {
	case t = <-r.told:
	case <-ctx.Done():
		if w.takeBack(r) {
			return ctx.Err()
		}
		t = <-r.told
	}
	if t == lead {
		w.round()
	}
	return r.err
}

// takeBack removes a request that nobody has begun with.
func (w *writer) takeBack(r *request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.queue, r)
	if i < 0 || r.leads {
		return false
	}
	w.queue = slices.Delete(w.queue, i, i+1)
	return true
}

// write has what waits committed: by whoever writes now, or by itself.
func (w *writer) write(counts bool) {
	w.mu.Lock()
	w.overdue = w.overdue || counts
	if w.busy || w.closed {
		w.again = true
		w.mu.Unlock()
		return
	}
	w.busy = true
	w.mu.Unlock()
	w.round()
}

// round commits what waits and passes the turn on. w.busy is the caller's.
func (w *writer) round() {
	for again := true; again; {
		b := w.take()
		w.commit(b)
		again = w.pass(b)
	}
}

// take takes all that waits.
func (w *writer) take() *batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), maxBatch)
	b := &batch{requests: w.queue[:n:n], outcomes: w.outcomes, counted: w.overdue}
	w.queue, w.outcomes, w.overdue, w.again = w.queue[n:], nil, false, false
	w.due.Stop()
	for _, r := range b.requests {
		if r.change == nil {
			b.accepts = append(b.accepts, r)
		} else {
			b.updates = append(b.updates, r)
		}
	}
	return b
}

// pass tells all of a batch that it is done and the next who waits to write. It answers true if the caller has to
// write once more.
func (w *writer) pass(b *batch) (again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range b.requests {
		r.told <- done
	}
	switch {
	case len(w.queue) > 0:
		w.queue[0].leads = true
		w.queue[0].told <- lead
	case w.again && !w.closed:
		return true
	default:
		w.busy = false
		w.idle.Broadcast()
	}
	return false
}

// close commits what is waiting and ends the writing.
func (w *writer) close() error {
	w.mu.Lock()
	w.closed = true
	for w.busy {
		w.idle.Wait()
	}
	w.mu.Unlock()
	w.commit(w.take())
	w.countDue.Stop()
	w.commit(&batch{counted: true}) // what the last results added
	w.due.Stop()
	err := w.conn.Close()
	if left := len(w.outcomes); left > 0 {
		err = errors.Join(fmt.Errorf("%d results of deliveries could not be stored", left), err)
	}
	return err
}
