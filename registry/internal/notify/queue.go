package notify

import (
	"errors"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"
)

// queue is what waits for one endpoint: changes, which are kept at nearly any
// price, and pulls, which make room for them. Among themselves they leave in the
// order in which they came.
type queue struct {
	max  int64 // bytes of both lanes
	more chan struct{}

	mu      sync.Mutex
	changes lane
	pulls   lane
	seq     uint64
	dropped dropped // since the last call of takeDropped
}

// dropped counts events that left a queue without being sent.
type dropped struct{ changes, pulls int }

func newMemoryQueue(maxSize int64) *queue {
	return newQueue(maxSize, &memoryLane{}, &memoryLane{})
}

// Of a full queue a segment is dropped at a time.
const (
	segmentsPerQueue = 16
	maxSegment       = 4 << 20
	minSegment       = 16 << 10
)

// The directories of the lanes.
const (
	changesDir = "changes"
	pullsDir   = "pulls"
)

func openQueue(dir string, maxSize int64, log *zap.Logger) (*queue, error) {
	limit := min(max(maxSize/segmentsPerQueue, minSegment), maxSegment)
	changes, err := openDiskLane(filepath.Join(dir, changesDir), limit, log)
	if err != nil {
		return nil, err
	}
	pulls, err := openDiskLane(filepath.Join(dir, pullsDir), limit, log)
	if err != nil {
		return nil, errors.Join(err, changes.close())
	}
	return newQueue(maxSize, changes, pulls), nil
}

func newQueue(maxSize int64, changes, pulls lane) *queue {
	q := &queue{max: maxSize, more: make(chan struct{}, 1), changes: changes, pulls: pulls, seq: max(changes.last(), pulls.last())}
	if changes.count()+pulls.count() > 0 {
		q.more <- struct{}{}
	}
	return q
}

// entry is a record on its way into queues.
type entry struct {
	at   time.Time
	body []byte
}

func (q *queue) number(entries []entry) (records []record, size int64) {
	records = make([]record, len(entries))
	for i, e := range entries {
		q.seq++
		records[i] = record{seq: q.seq, at: e.at, body: e.body}
		size += records[i].size()
	}
	return records, size
}

// addChanges puts changes at the end. They are durable once flush, which one
// goroutine at a time calls, has returned nil. A full queue loses pulls first,
// the oldest before others, then the oldest changes.
func (q *queue) addChanges(entries []entry) (flush func() error, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	records, size := q.number(entries)
	for q.changes.size()+q.pulls.size()+size > q.max {
		if n := q.pulls.dropOldest(); n > 0 {
			q.dropped.pulls += n
		} else if n := q.changes.dropOldest(); n > 0 {
			q.dropped.changes += n
		} else {
			break
		}
	}
	if err := q.changes.append(records); err != nil {
		return nil, err
	}
	q.signal()
	sync := q.changes.sync()
	return func() error {
		err := sync()
		if err != nil {
			q.mu.Lock()
			q.changes.seal()
			q.mu.Unlock()
		}
		return err
	}, nil
}

// addPulls puts pulls at the end. In a full queue they take the place of older
// ones, and have none if there are only changes.
func (q *queue) addPulls(entries []entry) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	records, size := q.number(entries)
	for q.changes.size()+q.pulls.size()+size > q.max {
		n := q.pulls.dropOldest()
		if n == 0 {
			q.dropped.pulls += len(records)
			return nil
		}
		q.dropped.pulls += n
	}
	if err := q.pulls.append(records); err != nil {
		q.dropped.pulls += len(records)
		return err
	}
	q.signal()
	return nil
}

// losePulls counts pulls that were not to be put here.
func (q *queue) losePulls(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropped.pulls += n
}

func (q *queue) signal() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// next is the event that is to be sent; ok is false if none waits.
func (q *queue) next() (r record, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, r, ok = q.front()
	return r, ok
}

func (q *queue) front() (lane, record, bool) {
	change, isChange := q.changes.head()
	pull, isPull := q.pulls.head()
	if isChange && (!isPull || change.seq < pull.seq) {
		return q.changes, change, true
	}
	return q.pulls, pull, isPull
}

// afterNext is the event that is to be sent behind the next.
func (q *queue) afterNext() (r record, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	front, _, ok := q.front()
	if !ok {
		return record{}, false
	}
	other := q.changes
	if front == q.changes {
		other = q.pulls
	}
	r, ok = front.second()
	if o, also := other.head(); also && (!ok || o.seq < r.seq) {
		return o, true
	}
	return r, ok
}

// settle takes the event with the number out, if it is still there.
func (q *queue) settle(seq uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range []lane{q.changes, q.pulls} {
		if r, ok := l.head(); ok && r.seq == seq {
			l.advance()
		}
	}
}

// waits says whether the event with the number is still the next.
func (q *queue) waits(seq uint64) bool {
	r, ok := q.next()
	return ok && r.seq == seq
}

// drop takes out everything that happened until then and returns how many events
// that was.
func (q *queue) drop(until time.Time) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for _, l := range []lane{q.changes, q.pulls} {
		for r, ok := l.head(); ok && !r.at.After(until); r, ok = l.head() {
			l.advance()
			n++
		}
	}
	return n
}

// backlog is how much waits.
type backlog struct {
	changes, pulls int
	bytes          int64
	oldest         time.Time // zero if nothing waits
}

func (q *queue) backlog() backlog {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := backlog{changes: q.changes.count(), pulls: q.pulls.count(), bytes: q.changes.size() + q.pulls.size()}
	if _, r, ok := q.front(); ok {
		b.oldest = r.at
	}
	return b
}

// takeDropped returns what was dropped since it was last asked.
func (q *queue) takeDropped() dropped {
	q.mu.Lock()
	defer q.mu.Unlock()
	d := q.dropped
	q.dropped = dropped{}
	return d
}

func (q *queue) close() error { return errors.Join(q.changes.close(), q.pulls.close()) }
