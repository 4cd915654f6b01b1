package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"
)

// ErrClosed says that the store takes nothing any more.
var ErrClosed = errors.New("the database is closed")

const (
	maxBatch      = 256                    // requests in one commit
	outcomeDelay  = 10 * time.Millisecond  // how long results wait for company
	outcomeCrowd  = 128                    // …unless so many are there
	statsInterval = time.Second            // how often counts are written
	retryDelay    = 250 * time.Millisecond // before results whose commit failed are tried again
)

// writer owns the only connection that writes. Its goroutine commits what has arrived by the time it is free.
type writer struct {
	d        *dialect
	pool     *sql.DB   // that a lost connection is made anew from
	conn     *sql.Conn // nil when it is lost
	rows     *gorm.DB  // over conn, inside the writer's transaction
	sql      *statements
	feed     *feed
	requests chan *request
	kick     chan struct{} // results or counts are due
	ended    chan struct{}

	mu       sync.Mutex
	closed   bool
	outcomes []*Outcome
	reported int64       // how many results were reported so far
	due      *time.Timer // of the results
	countDue *time.Timer // of the counts

	committed atomic.Int64 // how many of the reported results are committed

	// The goroutine's own.
	flushing bool      // the connection flushes each commit
	tried    time.Time // when the last attempt to connect failed
	away     error     // …and why
	counts   counts
}

// request is a part of a commit.
type request struct {
	accept []*Accept
	change func(tx *Tx) error
	kind   requestKind

	state atomic.Int32 // waiting, begun or taken back
	err   error
	done  chan struct{}
}

type requestKind int

const (
	durable requestKind = iota // flushed to disk before it is done
	settle                     // done when all results reported before are committed
	tally                      // done when all counts are committed
)

const (
	waiting int32 = iota
	begun
	takenBack
)

func newWriter(ctx context.Context, d *dialect, pool *sql.DB, conn *sql.Conn, f *feed) (*writer, error) {
	w := &writer{
		d: d, pool: pool, feed: f, flushing: true, requests: make(chan *request, maxBatch),
		kick: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	if err := w.use(ctx, conn); err != nil {
		return nil, err
	}
	w.due = time.AfterFunc(time.Hour, w.wake)
	w.countDue = time.AfterFunc(time.Hour, w.wake)
	w.due.Stop()
	w.countDue.Stop()
	go w.run()
	return w, nil
}

func (w *writer) wake() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// do has a request committed. When ctx is done before the writer has begun with it, it is taken back.
func (w *writer) do(ctx context.Context, r *request) error {
	r.done = make(chan struct{})
	w.mu.Lock()
	closed := w.closed
	w.mu.Unlock()
	if closed {
		return ErrClosed
	}
	select {
	case w.requests <- r:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.ended:
		return ErrClosed
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if r.state.CompareAndSwap(waiting, takenBack) {
			return ctx.Err()
		}
		<-r.done
	case <-w.ended:
		select {
		case <-r.done: // in the last commit
		default:
			return ErrClosed
		}
	}
	return r.err
}

// report keeps a result for one of the next commits and returns its number.
func (w *writer) report(o *Outcome) int64 {
	w.mu.Lock()
	w.outcomes = append(w.outcomes, o)
	w.reported++
	number, n := w.reported, len(w.outcomes)
	if n == 1 {
		w.due.Reset(outcomeDelay)
	}
	w.mu.Unlock()
	if n == outcomeCrowd {
		w.wake()
	}
	return number
}

// run commits until the writer is closed.
func (w *writer) run() {
	defer close(w.ended)
	for {
		select {
		case r := <-w.requests:
			w.commit(w.gather(r))
		case <-w.kick:
			w.commit(w.gather(nil))
		}
		w.mu.Lock()
		closed := w.closed
		w.mu.Unlock()
		if closed && len(w.requests) == 0 {
			w.commit(w.gather(nil))
			return
		}
	}
}

// gather takes what has arrived.
func (w *writer) gather(first *request) *batch {
	b := &batch{}
	b.add(first)
	for len(b.requests) < maxBatch {
		select {
		case r := <-w.requests:
			b.add(r)
			continue
		default:
		}
		break
	}
	w.mu.Lock()
	b.outcomes, b.number, b.closing = w.outcomes, w.reported, w.closed
	w.outcomes = nil
	if len(b.outcomes) > 0 {
		w.due.Stop()
	}
	w.mu.Unlock()
	b.counted = b.tallies || b.closing || w.counts.overdue()
	return b
}

// close commits what is waiting and ends the goroutine.
func (w *writer) close() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.wake()
	<-w.ended
	w.due.Stop()
	w.countDue.Stop()
	var err error
	if w.conn != nil {
		err = w.conn.Close()
	}
	if left := len(w.outcomes); left > 0 {
		err = errors.Join(fmt.Errorf("%d results of deliveries could not be stored", left), err)
	}
	return err
}
