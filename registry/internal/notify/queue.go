package notify

import (
	"errors"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"
)

// queue is what waits for one endpoint: changes, and pulls, which make room for
// them. They leave in the order in which they came.
type queue struct {
	max  int64 // bytes of both rows
	more chan struct{}
	log  *zap.Logger

	mu      sync.Mutex
	changes row
	pulls   row
	seq     uint64
	dropped dropped // since the last call of takeDropped
}

// row is a list of events, the oldest in front. Their bodies are in the log or, of a
// queue that is gone with the process, in memory.
type row struct {
	items []item
	bytes int64
	log   *diskLog // nil = in memory
}

// item is an event that waits. It is small: there may be a hundred thousand.
type item struct {
	seq    uint64
	at     int64 // in nanoseconds since 1970
	length int32
	offset int32    // in the segment
	seg    *segment // nil in memory
	body   []byte   // in memory only
}

func newItem(r *record, seg *segment, offset int64) item {
	return item{seq: r.seq, at: r.at.UnixNano(), length: int32(r.size()), seg: seg, offset: int32(offset)}
}

func (i *item) time() time.Time { return time.Unix(0, i.at).UTC() }

// dropped counts events that left a queue without being sent.
type dropped struct{ changes, pulls int }

// Bounds of a segment; one has a sixteenth of the queue, if that is within them.
const (
	segmentsPerQueue = 16
	maxSegment       = 4 << 20
	minSegment       = 16 << 10
)

// The directories of the rows.
const (
	changesDir = "changes"
	pullsDir   = "pulls"
)

// openQueue opens the queue in dir; "" is one in memory.
func openQueue(dir string, maxSize int64, log *zap.Logger) (q *queue, err error) {
	q = &queue{max: maxSize, more: make(chan struct{}, 1), log: log}
	if dir == "" {
		return q, nil
	}
	limit := min(max(maxSize/segmentsPerQueue, minSegment), maxSegment)
	if err := q.changes.open(filepath.Join(dir, changesDir), limit, log); err != nil {
		return nil, err
	}
	if err := q.pulls.open(filepath.Join(dir, pullsDir), limit, log); err != nil {
		return nil, errors.Join(err, q.changes.log.close())
	}
	for _, r := range []*row{&q.changes, &q.pulls} {
		if n := len(r.items); n > 0 {
			q.seq = max(q.seq, r.items[n-1].seq)
			q.signal()
		}
	}
	return q, nil
}

func (r *row) open(dir string, limit int64, log *zap.Logger) (err error) {
	r.log, r.items, err = openLog(dir, limit, log)
	for _, i := range r.items {
		r.bytes += int64(i.length)
	}
	return err
}

// append puts records at the end. After an error none of them is there.
func (r *row) append(records []record) (err error) {
	items := make([]item, len(records))
	for i := range records {
		items[i] = newItem(&records[i], nil, 0)
		items[i].body = records[i].body
	}
	if r.log != nil {
		if items, err = r.log.append(records); err != nil {
			return err
		}
	}
	for _, i := range items {
		r.bytes += int64(i.length)
	}
	r.items = append(r.items, items...)
	return nil
}

// pop takes the first event away.
func (r *row) pop() {
	first := r.items[0]
	r.items[0] = item{}
	r.items = r.items[1:]
	r.bytes -= int64(first.length)
	var next *item
	if len(r.items) > 0 {
		next = &r.items[0]
	} else {
		r.items = nil
	}
	if r.log != nil {
		r.log.remove(first, next)
	}
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

func (q *queue) full(size int64) bool { return q.changes.bytes+q.pulls.bytes+size > q.max }

// addChanges puts changes at the end. They are durable once flush, which one
// goroutine at a time calls, has returned nil. A full queue loses pulls first, then
// changes, the oldest first.
func (q *queue) addChanges(entries []entry) (flush func() error, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	records, size := q.number(entries)
	for ; q.full(size) && len(q.pulls.items) > 0; q.dropped.pulls++ {
		q.pulls.pop()
	}
	for ; q.full(size) && len(q.changes.items) > 0; q.dropped.changes++ {
		q.changes.pop()
	}
	if err := q.changes.append(records); err != nil {
		return nil, err
	}
	q.signal()
	if q.changes.log == nil {
		return func() error { return nil }, nil
	}
	sync := q.changes.log.sync()
	return func() error {
		err := sync()
		if err != nil {
			q.mu.Lock()
			q.changes.log.sealed = true
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
	for ; q.full(size); q.dropped.pulls++ {
		if len(q.pulls.items) == 0 {
			q.dropped.pulls += len(records)
			return nil
		}
		q.pulls.pop()
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

// front is the row whose first event is the next; its items are empty if none waits.
func (q *queue) front() *row {
	if len(q.pulls.items) == 0 || len(q.changes.items) > 0 && q.changes.items[0].seq < q.pulls.items[0].seq {
		return &q.changes
	}
	return &q.pulls
}

// next is the event that is to be sent; ok is false if none waits. Events that cannot
// be read any more are lost, and logged.
func (q *queue) next() (r record, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		row := q.front()
		if len(row.items) == 0 {
			return record{}, false
		}
		r, err := row.read(row.items[0])
		if err == nil {
			return r, true
		}
		bad, lost := row.items[0].seg, 0
		for ; len(row.items) > 0 && row.items[0].seg == bad; lost++ {
			row.pop()
		}
		q.log.Error("events in a queue cannot be read any more; they are lost", zap.String("file", row.log.path(bad.id)), zap.Int("events", lost), zap.Error(err))
	}
}

func (r *row) read(i item) (record, error) {
	if r.log == nil {
		return record{seq: i.seq, at: i.time(), body: i.body}, nil
	}
	return r.log.read(i)
}

// afterNext is the event that is to be sent behind the next.
func (q *queue) afterNext() (r record, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	front, other := q.front(), &q.changes
	if front == &q.changes {
		other = &q.pulls
	}
	switch {
	case len(front.items) > 1 && (len(other.items) == 0 || front.items[1].seq < other.items[0].seq):
		r, err := front.read(front.items[1])
		return r, err == nil
	case len(front.items) > 0 && len(other.items) > 0:
		r, err := other.read(other.items[0])
		return r, err == nil
	}
	return record{}, false
}

// settle takes the event with the number out, if it is still there.
func (q *queue) settle(seq uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range []*row{&q.changes, &q.pulls} {
		if len(r.items) > 0 && r.items[0].seq == seq {
			r.pop()
		}
	}
}

// waits says whether the event with the number is still the next.
func (q *queue) waits(seq uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.front().items
	return len(items) > 0 && items[0].seq == seq
}

// drop takes out everything that happened until then and returns how many events
// that was.
func (q *queue) drop(until time.Time) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range []*row{&q.changes, &q.pulls} {
		for ; len(r.items) > 0 && !r.items[0].time().After(until); n++ {
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
}

func (q *queue) backlog() backlog {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := backlog{changes: len(q.changes.items), pulls: len(q.pulls.items), bytes: q.changes.bytes + q.pulls.bytes}
	if items := q.front().items; len(items) > 0 {
		b.oldest = items[0].time()
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

func (q *queue) close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var errs []error
	for _, r := range []*row{&q.changes, &q.pulls} {
		if r.log != nil {
			errs = append(errs, r.log.close())
		}
	}
	return errors.Join(errs...)
}
