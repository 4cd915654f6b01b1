package notify

import "time"

// lane is a row of events, the oldest in front. A queue has two. One goroutine at
// a time uses a lane, except that sync runs beside the others.
type lane interface {
	// append puts records at the end. After an error none of them is there. Without
	// any it proves that some could be put there.
	append(records []record) error
	// sync makes durable what was appended before it was prepared. It is called
	// by one goroutine at a time.
	sync() (flush func() error)
	// seal says that a flush failed.
	seal()
	// head is the record in front; ok is false if there is none.
	head() (r record, ok bool)
	// second reads the record behind that in front; ok is false if there is none.
	second() (r record, ok bool)
	// advance takes the record in front away.
	advance()
	// dropOldest takes away records from the front, one or more, to make room. It
	// returns how many.
	dropOldest() int
	// size is what the records take, count how many there are.
	size() int64
	count() int
	// oldest is when the record in front happened.
	oldest() (at time.Time, ok bool)
	// last is the number of the newest record that is or was there, as far as that
	// is known.
	last() uint64
	close() error
}

// memoryLane is gone with the process.
type memoryLane struct {
	records []record
	bytes   int64
	newest  uint64
}

func (l *memoryLane) append(records []record) error {
	for _, r := range records {
		l.records = append(l.records, r)
		l.bytes += r.size()
		l.newest = r.seq
	}
	return nil
}

func (l *memoryLane) sync() func() error { return func() error { return nil } }

func (l *memoryLane) seal() {}

func (l *memoryLane) head() (record, bool) {
	if len(l.records) == 0 {
		return record{}, false
	}
	return l.records[0], true
}

func (l *memoryLane) second() (record, bool) {
	if len(l.records) < 2 {
		return record{}, false
	}
	return l.records[1], true
}

func (l *memoryLane) advance() {
	if len(l.records) == 0 {
		return
	}
	l.bytes -= l.records[0].size()
	l.records[0] = record{}
	l.records = l.records[1:]
	if len(l.records) == 0 {
		l.records = nil
	}
}

func (l *memoryLane) dropOldest() int {
	if len(l.records) == 0 {
		return 0
	}
	l.advance()
	return 1
}

func (l *memoryLane) size() int64 { return l.bytes }

func (l *memoryLane) count() int { return len(l.records) }

func (l *memoryLane) oldest() (time.Time, bool) {
	r, ok := l.head()
	return r.at, ok
}

func (l *memoryLane) last() uint64 { return l.newest }

func (l *memoryLane) close() error { return nil }
