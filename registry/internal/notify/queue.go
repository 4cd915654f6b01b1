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

// segmentSize is how many bytes a file of a row holds.
const segmentSize = 1 << 20

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
	if err := q.changes.open(filepath.Join(dir, changesDir), segmentSize, log); err != nil {
		return nil, err
	}
	if err := q.pulls.open(filepath.Join(dir, pullsDir), segmentSize, log); err != nil {
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

// add puts events at the end, in this order. The changes among them are durable once
// flush has returned nil; without events that proves that there could be some. On an
// error none of them is there. Nobody adds changes before flush has returned: see
// committer.writing.
func (q *queue) add(events []record) (flush func() error, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	flush = func() error { return nil }
	var changes, pulls []record
	for _, r := range events {
		q.seq++
		r.seq = q.seq
		if r.pull {
			pulls = append(pulls, r)
		} else {
			changes = append(changes, r)
		}
	}
	if len(changes) > 0 || len(pulls) == 0 {
		flush, err = q.addChanges(changes)
	}
	if err != nil {
		return nil, err
	}
	q.addPulls(pulls)
	q.signal()
	return flush, nil
}

func (q *queue) full(size int64) bool { return q.changes.bytes+q.pulls.bytes+size > q.max }

// addChanges makes room, in a full queue of pulls first, then of changes, the oldest
// first.
func (q *queue) addChanges(records []record) (flush func() error, err error) {
	size := sizeOf(records)
	for ; q.full(size) && len(q.pulls.items) > 0; q.dropped.pulls++ {
		q.pulls.pop()
	}
	for ; q.full(size) && len(q.changes.items) > 0; q.dropped.changes++ {
		q.changes.pop()
	}
	if err := q.changes.append(records); err != nil {
		return nil, err
	}
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

// addPulls puts pulls in the place of older ones if the queue is full. They have none
// if there are only changes, or they cannot be written: nobody waits for them.
func (q *queue) addPulls(records []record) {
	size := sizeOf(records)
	for ; q.full(size) && len(q.pulls.items) > 0; q.dropped.pulls++ {
		q.pulls.pop()
	}
	if len(records) == 0 {
		return
	}
	err := errFull
	if !q.full(size) {
		err = q.pulls.append(records)
	}
	if err != nil {
		q.dropped.pulls += len(records)
		q.log.Debug("pulls cannot be queued", zap.Error(err))
	}
}

var errFull = errors.New("the queue is full of pushes and deletions")

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

// next is the event that is to be sent; ok is false if none waits.
func (q *queue) next() (r record, ok bool) {
	first := q.first(1)
	if len(first) == 0 {
		return record{}, false
	}
	return first[0], true
}

// first returns the first n events that wait, or as many as there are; at least one
// if any waits. Those that cannot be read any more are lost, and logged.
func (q *queue) first(n int) (all []record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	changes, pulls := q.changes.items, q.pulls.items
	for len(all) < n && len(changes)+len(pulls) > 0 {
		row, items := &q.changes, &changes
		if len(changes) == 0 || len(pulls) > 0 && pulls[0].seq < changes[0].seq {
			row, items = &q.pulls, &pulls
		}
		r, err := row.read((*items)[0])
		switch {
		case err == nil:
			r.pull = row == &q.pulls
			*items, all = (*items)[1:], append(all, r)
		case len(all) > 0:
			return all
		default:
			q.lose(row, err)
			*items = row.items
		}
	}
	return all
}

// lose takes out what is in the file of the row's first event.
func (q *queue) lose(row *row, why error) {
	bad, lost := row.items[0].seg, 0
	for ; len(row.items) > 0 && row.items[0].seg == bad; lost++ {
		row.pop()
	}
	q.log.Error("events in a queue cannot be read any more; they are lost", zap.String("file", row.log.path(bad.id)), zap.Int("events", lost), zap.Error(why))
}

func (r *row) read(i item) (record, error) {
	if r.log == nil {
		return record{seq: i.seq, at: i.time(), body: i.body}, nil
	}
	return r.log.read(i)
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

func (b backlog) events() int { return b.changes + b.pulls }

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
