package notify

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/shared/durable"
)

// eventLog is a list of events, the oldest first: in files of a directory, and a cursor,
// which says where the front is. The cursor is not flushed: with an old one, events are
// sent again. Without a directory the events stay in memory.
//
// An event is pending until persist has written it; only then it is sent. After a failed
// write or flush the kernel may have dropped what it was given: the file is cut and left,
// and the events are pending again, so a disk that takes nothing for a while loses none.
type eventLog struct {
	dir     string // "" = in memory only
	pulls   bool   // pulls are not flushed, and leave the reserve to changes
	limit   int64  // bytes of a file
	log     *zap.Logger
	reserve *reserve // nil = none
	fsync   func(*os.File) error
	more    chan<- struct{} // is told when there are more events to send

	mu      *sync.Mutex // of the queue; for all that follows
	front   []record    // read from the files, or all without a directory
	files   []*file     // that hold something, the oldest first
	pending []record
	count   int
	bytes   int64
	seq     uint64     // of the last event
	written uint64     // of the last that is not pending
	writing bool       // somebody writes
	idle    *sync.Cond // tells that nobody does
	failed  error      // why the last write failed, nil = it did not
	tail    *os.File   // the last file; nil if that is not written to any more
	cursor  *os.File
	lastID  uint64
	closed  bool
}

// errEnded is told to whoever comes after the end.
var errEnded = errors.New("the registry is ending")

// open reads what waits in the log's directory, which it makes if it is missing.
func (l *eventLog) open() (err error) {
	l.idle = sync.NewCond(l.mu)
	if l.dir == "" {
		return nil
	}
	if err := durable.MakeDir(l.dir, 0o777); err != nil {
		return err
	}
	if l.cursor, err = os.OpenFile(filepath.Join(l.dir, cursorName), os.O_WRONLY|os.O_CREATE, 0o600); err != nil {
		return err
	}
	if err := l.scan(); err != nil {
		return errors.Join(err, l.close())
	}
	found := l.files
	l.files = nil
	for _, f := range found {
		switch {
		case f.err != nil:
			l.log.Error("a file of an event queue cannot be read and is left out", zap.String("file", f.path), zap.Error(f.err))
			continue
		case f.torn > 0:
			l.log.Warn("a file of an event queue ends in the middle of an event; what follows is cut off", zap.String("file", f.path), zap.Int64("bytes", f.torn))
			_ = os.Truncate(f.path, f.end) // else it is logged again
		}
		l.files = append(l.files, f)
	}
	l.trim()
	return nil
}

// push puts an event at the end.
func (l *eventLog) push(r record) {
	l.seq++
	r.seq = l.seq
	l.count++
	l.bytes += r.size()
	if l.dir != "" {
		l.pending = append(l.pending, r)
		return
	}
	l.front = append(l.front, r)
	signal(l.more)
}

// persist makes the events durable that were pushed before, or pulls written. Callers that
// come while others are written share the next write. After an error the events stay in
// memory, and the next call proves that some can be written, with or without one.
func (l *eventLog) persist() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dir == "" || l.pulls && l.reserve.isSpent() {
		return nil // the room that is left is for changes
	}
	for upTo := l.seq; l.written < upTo || l.failed != nil; {
		if l.closed {
			return errEnded
		}
		if l.writing {
			if l.idle.Wait(); l.failed != nil {
				return l.failed
			}
			continue
		}
		l.writing = true
		err := l.write()
		if noSpace(err) && !l.pulls && l.reserve.spend() {
			err = l.write()
		}
		l.writing = false
		l.tell(err)
		l.idle.Broadcast()
		if err != nil {
			return err
		}
	}
	return nil
}

// failure is why the last write failed, nil if it did not.
func (l *eventLog) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// tell notes how a write ended, and logs what changes for clients.
func (l *eventLog) tell(err error) {
	switch {
	case l.pulls: // nobody waits for them
	case err != nil && l.failed == nil:
		l.log.Error("events cannot be queued; pushes and deletions are refused until they can", zap.Error(err))
	case err == nil && l.failed != nil:
		l.log.Info("events can be queued again")
	}
	l.failed = err
}

// write writes as many pending events as one file takes, one at least if there is one. It
// gives up mu meanwhile.
func (l *eventLog) write() error {
	var size int64
	n := 0
	for n < len(l.pending) && (n == 0 || int64(len(fileMagic))+size+l.pending[n].size() <= l.limit) {
		size += l.pending[n].size()
		n++
	}
	if l.tail == nil || l.last().end+size > l.limit {
		if err := l.begin(); err != nil {
			return err
		}
	}
	f, tail, at := l.last(), l.tail, l.last().end
	batch := l.pending[:n:n]
	l.pending = l.pending[n:]
	l.mu.Unlock()
	err := l.append(tail, at, size, batch)
	l.mu.Lock()
	if err != nil {
		l.pending = append(batch, l.pending...)
		_ = tail.Truncate(at) // else some are sent twice
		l.closeTail()
		return err
	}
	if n > 0 {
		f.end += size
		f.events += n
		l.written = batch[n-1].seq
		signal(l.more)
	}
	return nil
}

func (l *eventLog) append(tail *os.File, at, size int64, batch []record) error {
	b := make([]byte, 0, size)
	for i := range batch {
		b = batch[i].appendTo(b)
	}
	_, err := tail.WriteAt(b, at)
	if err == nil && !l.pulls {
		err = l.fsync(tail)
	}
	return err
}

func (l *eventLog) last() *file { return l.files[len(l.files)-1] }

// begin begins a new file. After an error the last one is not written to again, so the
// next write proves that there can be one.
func (l *eventLog) begin() error {
	l.closeTail()
	l.trim()
	id := l.lastID + 1
	f := &file{id: id, path: filepath.Join(l.dir, fileName(id)), read: int64(len(fileMagic)), end: int64(len(fileMagic))}
	tail, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = tail.WriteString(fileMagic)
	if err == nil && !l.pulls {
		err = durable.SyncDir(l.dir)
	}
	if err != nil {
		return errors.Join(err, tail.Close(), os.Remove(f.path))
	}
	l.lastID, l.tail, l.files = id, tail, append(l.files, f)
	return nil
}

// peek is the oldest event but so many; nil if there is none. What cannot be read any more
// is lost, and logged; the error says that it cannot be read now.
func (l *eventLog) peek(skip int) (*record, error) {
	for _, f := range l.files {
		for len(l.front) <= skip && f.read < f.end {
			events, err := f.next()
			l.front = append(l.front, events...)
			if err != nil && (passing(err) || len(l.front) > 0) {
				return nil, err
			}
			if err != nil {
				l.lose(f, err)
			}
		}
	}
	if len(l.front) <= skip {
		return nil, nil
	}
	return &l.front[skip], nil
}

// lose gives up what is in the file.
func (l *eventLog) lose(f *file, why error) {
	l.log.Error("events in a queue cannot be read any more; they are lost", zap.String("file", f.path), zap.Int("events", f.events), zap.Error(why))
	l.count -= f.events
	l.bytes -= f.end - f.read
	f.events, f.read = 0, f.end
	if f == l.last() {
		l.closeTail()
	}
	_, _ = l.cursor.WriteAt(encodeCursor(f.id, f.end), 0)
}

// first is the event that pop takes out, nil if there is none. What is being written stays.
func (l *eventLog) first() *record {
	r, err := l.peek(0)
	if r == nil && err == nil && len(l.pending) > 0 && !l.writing {
		return &l.pending[0]
	}
	return r
}

// pop takes the oldest event out, and says whether there was one. Failing to write the
// cursor makes events come again.
func (l *eventLog) pop() bool {
	first := l.first()
	if first == nil {
		return false
	}
	r := *first
	l.count--
	l.bytes -= r.size()
	if len(l.front) == 0 {
		l.pending, l.written = l.pending[1:], r.seq
		return true
	}
	l.front[0] = record{}
	l.front = l.front[1:]
	if r.file != nil {
		r.file.events--
		l.trim()
		_, _ = l.cursor.WriteAt(encodeCursor(r.file.id, r.end), 0)
	}
	return true
}

// drop takes out everything that happened until then and returns how many events that was.
func (l *eventLog) drop(until time.Time) (n int) {
	for l.writing {
		l.idle.Wait()
	}
	for first := l.first(); first != nil && !first.time.After(until); first = l.first() {
		l.pop()
		n++
	}
	return n
}

// trim removes the files in front that have nothing left, except the one that is written to.
func (l *eventLog) trim() {
	for len(l.files) > 0 && l.files[0].events == 0 && (len(l.files) > 1 || l.tail == nil) {
		_ = os.Remove(l.files[0].path) // before the cursor, so removed at the next start
		l.files = l.files[1:]
	}
}

func (l *eventLog) closeTail() {
	if l.tail != nil {
		l.tail.Close()
		l.tail = nil
	}
}

// close lets go of the files. What is in memory is lost.
func (l *eventLog) close() error {
	l.closed = true
	l.closeTail()
	l.trim()
	if l.cursor == nil {
		return nil
	}
	return l.cursor.Close()
}
