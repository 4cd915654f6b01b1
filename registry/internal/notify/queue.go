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

// queue is what waits for one endpoint: a log of changes, and one of pulls, which make
// room for them. Besides its own it has those of dead processes, which it only empties.
// The oldest event leaves first.
type queue struct {
	max  int64         // bytes of its own logs
	more chan struct{} // there may be an event
	log  *zap.Logger

	mu             sync.Mutex
	logs           []*eventLog
	changes, pulls *eventLog // its own
}

// event is an event in a queue.
type event struct {
	record
	log *eventLog
}

// dropped counts events that are never taken: a full queue had no room for them, or the
// endpoint refused them.
type dropped struct{ changes, pulls, refused int }

// fileSize is how many bytes a file of a log holds.
const fileSize = 1 << 20

// The directories of the logs.
const (
	changesDir = "changes"
	pullsDir   = "pulls"
)

// openQueue opens the queue in dir; "" is one in memory.
func openQueue(dir string, maxSize int64, reserve *reserve, log *zap.Logger) (*queue, error) {
	q := &queue{max: maxSize, more: make(chan struct{}, 1), log: log}
	if _, err := q.attach(dir, reserve); err != nil {
		return nil, err
	}
	q.changes, q.pulls = q.logs[0], q.logs[1]
	return q, nil
}

// attach has the queue send what waits in dir, too, and returns how many events do.
func (q *queue) attach(dir string, reserve *reserve) (events int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var opened []*eventLog
	for _, kind := range []string{changesDir, pullsDir} {
		l := &eventLog{pulls: kind == pullsDir, limit: fileSize, log: q.log, reserve: reserve, fsync: (*os.File).Sync, more: q.more, mu: &q.mu}
		if dir != "" {
			l.dir = filepath.Join(dir, kind)
		}
		if err := l.open(); err != nil {
			return 0, errors.Join(err, closeLogs(opened))
		}
		opened = append(opened, l)
		events += l.count
	}
	q.logs = append(q.logs, opened...)
	signal(q.more)
	return events, nil
}

// detach lets go of a directory that was attached, unless events wait in it.
func (q *queue) detach(dir string) (waits bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	in := func(l *eventLog) bool { return filepath.Dir(l.dir) == dir }
	if slices.ContainsFunc(q.logs, func(l *eventLog) bool { return in(l) && l.count > 0 }) {
		return true
	}
	q.logs = slices.DeleteFunc(q.logs, func(l *eventLog) bool {
		if in(l) {
			_ = l.close()
		}
		return in(l)
	})
	return false
}

func closeLogs(logs []*eventLog) error {
	var errs []error
	for _, l := range logs {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}

// add puts events at the end of one of its own logs, whose persist makes them durable. To
// make room in a full queue pulls go first, the oldest of them before others, then the
// oldest changes. A pull has no room if there are only changes.
func (q *queue) add(to *eventLog, events []record) (d dropped) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range events {
		full := func() bool { return q.changes.bytes+q.pulls.bytes+r.size() > q.max }
		for full() && q.pulls.pop() {
			d.pulls++
		}
		for full() && to == q.changes && q.changes.pop() {
			d.changes++
		}
		if to == q.pulls && full() {
			d.pulls++
		} else {
			to.push(r)
		}
	}
	return d
}

// signal fills a channel that has room for one, which tells its reader to look.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// next returns the oldest event that waits, but not the one given; nil if there is none, or
// if one cannot be read now: then maintain signals.
func (q *queue) next(except *event) *event {
	q.mu.Lock()
	defer q.mu.Unlock()
	var oldest *event
	for _, l := range q.logs {
		skip := 0
		if except != nil && l.begins(except) {
			skip = 1
		}
		r, err := l.peek(skip)
		if err != nil {
			return nil
		}
		if r != nil && (oldest == nil || r.time.Before(oldest.time)) {
			oldest = &event{*r, l}
		}
	}
	return oldest
}

// begins says whether the event is the first of the log.
func (l *eventLog) begins(e *event) bool { return len(l.front) > 0 && l.front[0].seq == e.seq }

// settle takes the event out, if it is still there.
func (q *queue) settle(e *event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.log.begins(e) {
		e.log.pop()
	}
}

// waits says whether the event is still there.
func (q *queue) waits(e *event) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return e.log.begins(e)
}

// drop takes out everything that happened until then and returns how many events that was.
func (q *queue) drop(until time.Time) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.logs {
		n += l.drop(until)
	}
	return n
}

// backlog is how much waits.
type backlog struct {
	changes, pulls int
	bytes          int64
	oldest         time.Time // zero if nothing waits
}

func (b backlog) events() int { return b.changes + b.pulls }

func (q *queue) backlog() (b backlog) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.logs {
		if first := l.first(); first != nil && (b.oldest.IsZero() || first.time.Before(b.oldest)) {
			b.oldest = first.time
		}
		if b.bytes += l.bytes; l.pulls {
			b.pulls += l.count
		} else {
			b.changes += l.count
		}
	}
	return b
}

func (q *queue) close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return closeLogs(q.logs)
}
