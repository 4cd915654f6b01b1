package notify

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

// queue is what waits for one endpoint: rows of changes, and of pulls, which make room
// for them. Besides its own it has those of dead processes, which it only empties. The
// oldest event leaves first.
type queue struct {
	max  int64 // bytes of its own rows
	more chan struct{}
	log  *zap.Logger

	mu             sync.Mutex
	rows           []*row
	changes, pulls *row // its own
	seq            uint64
}

// event is an event in a queue.
type event struct {
	record
	row *row
}

// dropped counts events that had no room in a full queue.
type dropped struct{ changes, pulls int }

// segmentSize is how many bytes a file of a row holds.
const segmentSize = 1 << 20

// The directories of the rows.
const (
	changesDir = "changes"
	pullsDir   = "pulls"
)

// openQueue opens the queue in dir; "" is one in memory.
func openQueue(dir string, maxSize int64, reserve *reserve, log *zap.Logger) (q *queue, err error) {
	q = &queue{max: maxSize, more: make(chan struct{}, 1), log: log}
	rows, err := q.openRows(dir, reserve)
	if err != nil {
		return nil, err
	}
	q.rows, q.changes, q.pulls = rows, rows[0], rows[1]
	for _, r := range rows {
		if n := len(r.events); n > 0 {
			q.seq = max(q.seq, r.events[n-1].seq)
			q.signal()
		}
	}
	return q, nil
}

// openRows opens the rows of changes and of pulls in dir.
func (q *queue) openRows(dir string, reserve *reserve) (rows []*row, err error) {
	for _, kind := range []string{changesDir, pullsDir} {
		r := &row{pulls: kind == pullsDir, limit: segmentSize, log: q.log, reserve: reserve, fsync: (*os.File).Sync, mu: &q.mu}
		if dir != "" {
			r.dir = filepath.Join(dir, kind)
		}
		if err := r.open(); err != nil {
			return nil, errors.Join(err, closeRows(rows))
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func closeRows(rows []*row) error {
	var errs []error
	for _, r := range rows {
		errs = append(errs, r.close())
	}
	return errors.Join(errs...)
}

// attach has the queue send what waits in the queue of a dead process.
func (q *queue) attach(dir string) (events int, err error) {
	rows, err := q.openRows(dir, nil)
	if err != nil {
		return 0, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.rows = append(q.rows, rows...)
	q.signal()
	return len(rows[0].events) + len(rows[1].events), nil
}

// detach removes a directory that was attached once nothing waits in it, and says whether
// something does.
func (q *queue) detach(dir string) (waits bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	in := func(r *row) bool { return filepath.Dir(r.dir) == dir }
	if !slices.ContainsFunc(q.rows, in) {
		return false
	}
	if slices.ContainsFunc(q.rows, func(r *row) bool { return in(r) && len(r.events) > 0 }) {
		return true
	}
	q.rows = slices.DeleteFunc(q.rows, func(r *row) bool {
		if in(r) {
			_ = r.close()
		}
		return in(r)
	})
	_ = os.RemoveAll(dir) // else with the home
	return false
}

// add puts events at the end of one of its own rows, whose persist makes them durable.
// To make room in a full queue pulls go first, the oldest of them before others, then
// the oldest changes. A pull has no room if there are only changes.
func (q *queue) add(to *row, events []record) (d dropped) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range events {
		q.seq++
		r.seq = q.seq
		full := func() bool { return q.changes.bytes+q.pulls.bytes+int64(r.length) > q.max }
		for ; full() && len(q.pulls.events) > 0; d.pulls++ {
			q.pulls.pop()
		}
		for ; full() && len(q.changes.events) > 0 && to == q.changes; d.changes++ {
			q.changes.pop()
		}
		if to == q.pulls && full() {
			d.pulls++
		} else {
			to.push(r)
		}
	}
	q.signal()
	return d
}

func (q *queue) signal() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// next returns the oldest event that waits, but not the one given; nil if there is none,
// or if it cannot be read now: then maintain signals. Events that cannot be read any more
// are lost, and logged.
func (q *queue) next(except *event) *event {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		row, first := q.oldest(except)
		if row == nil {
			return nil
		}
		r, err := row.read(*first)
		if err == nil {
			return &event{r, row}
		}
		if except != nil || passing(err) {
			return nil
		}
		row.lose(err)
	}
}

// oldest finds the event that next returns. The order of a row is that of its events,
// that between rows the one of time.
func (q *queue) oldest(except *event) (row *row, first *record) {
	for _, r := range q.rows {
		events := r.events
		if except != nil && r == except.row && r.begins(except) {
			events = events[1:]
		}
		if len(events) > 0 && (first == nil || events[0].before(first)) {
			row, first = r, &events[0]
		}
	}
	return row, first
}

// begins says whether the event is the first of its row.
func (r *row) begins(e *event) bool { return len(r.events) > 0 && r.events[0].seq == e.seq }

// settle takes the event out, if it is still there.
func (q *queue) settle(e *event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.row.begins(e) {
		e.row.pop()
	}
}

// waits says whether the event is still there.
func (q *queue) waits(e *event) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return e.row.begins(e)
}

// drop takes out everything that happened until then and returns how many events
// that was.
func (q *queue) drop(until time.Time) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.rows {
		for ; len(r.events) > 0 && !r.events[0].time().After(until); n++ {
			r.pop()
		}
	}
	return n
}

// backlog is how much waits.
type backlog struct {
	changes, pulls int
	bytes          int64
	oldest         time.Time // zero if nothing waits
	unwritten      int       // of the changes, those that the disk does not take
}

func (b backlog) events() int { return b.changes + b.pulls }

func (q *queue) backlog() (b backlog) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.rows {
		if b.bytes += r.bytes; r.pulls {
			b.pulls += len(r.events)
		} else {
			b.changes += len(r.events)
		}
	}
	b.unwritten = q.changes.unwritten()
	if _, first := q.oldest(nil); first != nil {
		b.oldest = first.time()
	}
	return b
}

func (q *queue) close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return closeRows(q.rows)
}
