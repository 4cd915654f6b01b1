package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"slipway/relay/internal/lease"
	"slipway/shared/plural"
)

// ErrClosed says that the store takes nothing any more.
var ErrClosed = errors.New("the database is closed")

const (
	maxBatch     = 256                    // parts of one commit
	outcomeDelay = 100 * time.Millisecond // how long results wait for company
	awaitedDelay = 5 * time.Millisecond   // …while somebody waits for a message to be final
	outcomeGroup = 24                     // results that go along with messages: fewer than window lets a room have
	outcomeCrowd = 128                    // results that wait no longer
	maxOutcomes  = 1024                   // results in one commit
	retryDelay   = 250 * time.Millisecond // before results whose commit failed are tried again
)

// writer owns the only connection that writes. A caller that finds it free commits at once, in its own goroutine: handing
// a lone message to another one costs more than its SQL. Parts that arrive meanwhile are committed together, by one
// goroutine.
type writer struct {
	d    *database
	pool *sql.DB   // replaces a lost connection
	conn *sql.Conn // nil when it is lost
	rows *gorm.DB  // over conn, inside the writer's transaction
	sql  *statements
	feed *feed

	member *lease.Member

	mu       sync.Mutex
	free     sync.Cond // a commit has ended and none follows
	busy     bool      // somebody commits: conn, rows and sql are theirs
	again    bool      // …and shall commit once more
	closed   bool
	waiting  []*part
	outcomes []*Outcome  // recorded, not committed
	inFlight []*Outcome  // those that are being committed
	due      *time.Timer // of the results
	dueAt    time.Time   // when it fires; zero if it will not
	ripe     bool        // results go into the next commit, whatever it is made for

	// Used by the committing goroutine only.
	tried time.Time // when the last attempt to connect failed
	away  error     // …and why
}

// part is what a commit is to do for one caller.
type part struct {
	incoming []*Incoming
	change   func(tx *Tx) error
	settle   bool // it is done when all results recorded before are committed

	state atomic.Int32 // waiting, begun or taken back
	err   error
	done  chan struct{} // nil if the caller commits it
}

const (
	waiting int32 = iota
	begun
	takenBack
)

func newWriter(ctx context.Context, d *database, pool *sql.DB, conn *sql.Conn, f *feed, m *lease.Member) (*writer, error) {
	w := &writer{d: d, pool: pool, feed: f, member: m}
	w.free.L = &w.mu
	if err := w.use(ctx, conn); err != nil {
		return nil, err
	}
	w.due = time.AfterFunc(time.Hour, w.fire)
	w.due.Stop()
	return w, nil
}

// do has a part committed. When ctx is done before its commit has begun, it is taken back.
func (w *writer) do(ctx context.Context, p *part) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ErrClosed
	}
	first := !w.busy
	if !first {
		p.done = make(chan struct{})
	}
	w.waiting = append(w.waiting, p)
	w.busy = true
	w.mu.Unlock()
	if first {
		_ = w.commit(w.gather())
		if w.more() { // not for this caller to wait for
			go w.run()
		}
		return p.err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		if p.state.CompareAndSwap(waiting, takenBack) {
			return ctx.Err()
		}
		<-p.done
	}
	return p.err
}

// wake commits what is there, or leaves it to the committing goroutine.
func (w *writer) wake() {
	w.mu.Lock()
	w.again = w.busy
	free := !w.busy && !w.closed
	w.busy = w.busy || free
	w.mu.Unlock()
	if free {
		w.run()
	}
}

// fire is called when results have waited for long enough.
func (w *writer) fire() {
	w.mu.Lock()
	w.dueAt, w.ripe = time.Time{}, true
	w.mu.Unlock()
	w.wake()
}

// run commits until nothing is left.
func (w *writer) run() {
	for {
		_ = w.commit(w.gather())
		if !w.more() {
			return
		}
	}
}

// more reports whether there is something to commit now; if not, the writer is free.
func (w *writer) more() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) > 0 || w.again {
		return true
	}
	w.busy = false
	w.free.Broadcast()
	return false
}

// record keeps a result for one of the next commits. A timer that runs is left alone: to set it for each result costs a system call.
func (w *writer) record(o *Outcome) {
	o.epoch = w.member.Epoch()
	w.mu.Lock()
	w.outcomes = append(w.outcomes, o)
	n := len(w.outcomes)
	patience := w.feed.patience()
	w.arm(patience)
	w.ripe = w.ripe || n >= outcomeGroup || patience < outcomeDelay
	w.mu.Unlock()
	if n == outcomeCrowd {
		go w.wake()
	}
}

// recorded returns the entries of a room whose recorded end is not committed. settled is false if other results about the room aren't: the
// database doesn't have the entries as they are.
func (w *writer) recorded(room int64) (ended map[int64]bool, settled bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	settled = true
	for _, all := range [][]*Outcome{w.inFlight, w.outcomes} {
		for _, o := range all {
			switch {
			case o.Entry.Room != room:
			case o.Entry.State.Sendable() || o.Spreads():
				settled = false
			case ended == nil:
				ended = map[int64]bool{o.Entry.ID: true}
			default:
				ended[o.Entry.ID] = true
			}
		}
	}
	return ended, settled
}

// flying records which results are being committed.
func (w *writer) flying(all []*Outcome) {
	w.mu.Lock()
	w.inFlight = all
	w.mu.Unlock()
}

// arm has the results committed after a while. w.mu is held.
func (w *writer) arm(after time.Duration) {
	if at := time.Now().Add(after); w.dueAt.IsZero() || at.Before(w.dueAt) {
		w.dueAt = at
		w.due.Reset(after)
	}
}

// hurry has results committed soon that wait for company.
func (w *writer) hurry() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.outcomes) > 0 {
		w.arm(awaitedDelay)
	}
}

// gather takes what has arrived. Results wait while there are only new messages: one at a time each costs three times what it
// does among others (docs/decisions/0016-measured-costs.md).
func (w *writer) gather() *batch {
	b := &batch{}
	w.mu.Lock()
	n := min(len(w.waiting), maxBatch)
	for _, p := range w.waiting[:n] {
		b.add(p)
	}
	if w.waiting = slices.Delete(w.waiting, 0, n); cap(w.waiting) > 4*maxBatch && len(w.waiting) == 0 {
		w.waiting = nil
	}
	if w.ripe || b.settles || w.closed {
		b.outcomes, w.outcomes, w.ripe = w.outcomes, nil, false
	}
	w.inFlight, w.again = b.outcomes, false
	w.mu.Unlock()
	return b
}

// close commits what is waiting. Nothing is taken any more.
func (w *writer) close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	for w.busy {
		w.free.Wait()
	}
	w.busy = true // and stays so
	w.mu.Unlock()
	_ = w.commit(w.gather())
	w.due.Stop()
	var err error
	if w.conn != nil {
		err = w.conn.Close()
	}
	if left := len(w.outcomes); left > 0 {
		err = errors.Join(fmt.Errorf("%s of deliveries could not be stored", plural.Of(left, "result")), err)
	}
	return err
}

// reconnectAfter is the time between attempts to connect, in which everything fails at once.
const reconnectAfter = 500 * time.Millisecond

// use prepares what is written over a connection.
func (w *writer) use(ctx context.Context, conn *sql.Conn) (err error) {
	if w.rows, err = w.d.open(conn); err != nil {
		return err
	}
	if err := w.d.prepare(ctx, conn); err != nil {
		return err
	}
	if w.sql, err = prepare(ctx, w.d, conn); err != nil {
		return err
	}
	w.conn = conn
	return nil
}

// connect replaces a lost connection.
func (w *writer) connect(ctx context.Context) error {
	if w.conn != nil {
		return nil
	}
	if time.Since(w.tried) < reconnectAfter {
		return w.away
	}
	conn, err := w.pool.Conn(ctx)
	if err == nil {
		if err = w.use(ctx, conn); err != nil {
			err = errors.Join(err, conn.Close())
		}
	}
	if err != nil {
		w.tried, w.away = time.Now(), errAway(w.d.judge(nil, err).err)
		return w.away
	}
	return nil
}

func errAway(err error) error { return fmt.Errorf("the database is away: %w", err) }

// disconnect gives up a connection that is lost, with the transaction that it may be in.
func (w *writer) disconnect() {
	_ = w.conn.Raw(func(any) error { return driver.ErrBadConn }) // it goes back into no pool
	_ = w.conn.Close()
	w.conn, w.rows, w.sql = nil, nil, nil
	w.tried = time.Time{}
}
