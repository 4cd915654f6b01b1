package notify

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"go.uber.org/zap"

	"slipway/shared/durable"
)

// row is a list of events, the oldest in front: an index in memory, and the events in
// files of a directory: segments, which are only appended to and removed, and a cursor,
// which says where the front is. The cursor is not flushed: with an old one, events are
// sent again. Without a directory the events stay in memory.
//
// An event is in memory until persist has written it, so nothing is lost by a disk that
// takes nothing for a while. After a failed write or flush the kernel may have dropped
// what it was given: the segment is cut and left, and the events are in memory again.
type row struct {
	dir     string // "" = in memory only
	pulls   bool   // pulls are not flushed, and leave the reserve to changes
	limit   int64  // bytes of a segment
	log     *zap.Logger
	reserve *reserve // nil = none
	fsync   func(*os.File) error
	gather  sync.Mutex            // guards next
	next    *round                // that has not begun to write, nil = none
	writing sync.Mutex            // held while events are written and flushed
	failed  atomic.Pointer[error] // why the last persist failed, nil = it did not

	mu     *sync.Mutex // of the queue; for all that follows
	events []record
	bytes  int64
	segs   []*segment // that hold something, oldest first
	tail   *os.File   // of the last segment; nil if that is not written to any more
	cursor *os.File
	nextID uint64
	closed bool
}

// errEnded is told to whoever comes after the end.
var errEnded = errors.New("the registry is ending")

// open reads what waits in the row's directory, which it makes if it is missing. What a
// crash has torn off at the end is cut, and logged.
func (r *row) open() (err error) {
	if r.dir == "" {
		return nil
	}
	if err := durable.MakeDir(r.dir, 0o777); err != nil {
		return err
	}
	if r.cursor, err = os.OpenFile(filepath.Join(r.dir, cursorName), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	at, _ := parseCursor(r.cursor)
	r.nextID = at + 1 // the cursor must not stand behind what is new
	err = scan(r.dir, func(f *scannedFile) {
		r.nextID = max(r.nextID, f.id+1)
		r.load(f)
	})
	if err != nil {
		return errors.Join(err, r.close())
	}
	return nil
}

// load takes a segment over as it was found, and removes one that has nothing left.
func (r *row) load(f *scannedFile) {
	path := r.path(f.id)
	switch {
	case f.err != nil:
		r.log.Error("a file of an event queue cannot be read and is left out", zap.String("file", path), zap.Error(f.err))
		return
	case f.end < int64(len(f.content)):
		r.log.Warn("a file of an event queue ends in the middle of an event; what follows is cut off", zap.String("file", path), zap.Int64("bytes", int64(len(f.content))-f.end))
		_ = os.Truncate(path, f.end) // else it is logged again
	}
	if f.left == 0 {
		_ = os.Remove(path) // again at the next start, if need be
		return
	}
	r.segs = append(r.segs, f.segment)
	for _, e := range f.events {
		r.push(e)
	}
}

func (r *row) path(id uint64) string { return filepath.Join(r.dir, segmentName(id)) }

// push puts an event at the end.
func (r *row) push(e record) {
	r.events = append(r.events, e)
	r.bytes += int64(e.length)
}

// round is a write and a flush that several callers share.
type round struct {
	done chan struct{}
	err  error
}

// persist makes the events durable that were pushed before, or pulls written. Callers
// that come while others are written share the next round: none waits for a second one.
// After an error the events stay in memory, and the next call proves that some can be
// written, with or without one.
func (r *row) persist() error {
	r.gather.Lock()
	shared := r.next
	if shared != nil {
		r.gather.Unlock()
		<-shared.done
		return shared.err
	}
	own := &round{done: make(chan struct{})}
	r.next = own
	r.gather.Unlock()
	defer close(own.done)
	r.writing.Lock()
	defer r.writing.Unlock()
	r.gather.Lock()
	r.next = nil
	r.gather.Unlock()
	own.err = r.persistAll()
	return own.err
}

// persistAll needs r.writing.
func (r *row) persistAll() (err error) {
	if r.pulls && r.reserve.isSpent() {
		return nil // the room that is left is for changes
	}
	for more := true; more && err == nil; {
		more, err = r.persistSegment()
		if noSpace(err) && !r.pulls && r.reserve.spend() {
			more, err = r.persistSegment()
		}
	}
	before := r.failed.Load()
	if r.failed.Store(nil); err != nil {
		r.failed.Store(&err)
	}
	switch {
	case r.pulls: // nobody waits for them
	case err != nil && before == nil:
		r.log.Error("events cannot be queued; pushes and deletions are refused until they can", zap.Error(err))
	case err == nil && before != nil:
		r.log.Info("events can be queued again")
	}
	return err
}

// persistSegment writes what one segment takes. more says that there was more than that.
func (r *row) persistSegment() (more bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	waits := r.events[len(r.events)-r.unwritten():]
	switch {
	case r.closed:
		return false, errEnded
	case r.dir == "" || len(waits) == 0 && r.failed.Load() == nil:
		return false, nil
	case r.tail == nil || len(waits) > 0 && r.last().end+int64(waits[0].length) > r.limit:
		if err := r.rotate(); err != nil {
			return false, err
		}
	}
	s, begin := r.last(), r.last().end
	n, err := r.write(waits)
	if tail := r.tail; err == nil && !r.pulls {
		r.mu.Unlock() // events come and go beside the flush
		err = r.fsync(tail)
		r.mu.Lock()
	}
	for i := len(r.events) - 1 - r.unwritten(); i >= 0 && r.events[i].body != nil; i-- {
		if err == nil {
			r.events[i].body = nil
		} else {
			r.events[i].seg = nil
			s.left--
		}
	}
	if err != nil {
		s.end = begin
		_ = r.tail.Truncate(begin) // else some are sent twice
		r.closeFile(&r.tail)
	}
	return n < len(waits), err
}

// unwritten is how many events at the end the disk does not have yet.
func (r *row) unwritten() (n int) {
	for r.dir != "" && n < len(r.events) && r.events[len(r.events)-1-n].seg == nil {
		n++
	}
	return n
}

// write appends as many of the events to the last segment as fit, one at least.
func (r *row) write(events []record) (n int, err error) {
	s := r.last()
	begin := s.end
	size := int64(0)
	for n < len(events) && (n == 0 || begin+size+int64(events[n].length) <= r.limit) {
		size += int64(events[n].length)
		n++
	}
	b := make([]byte, 0, size)
	for i := range events[:n] {
		e := &events[i]
		b = e.appendTo(b)
		e.seg, e.offset = s, int32(s.end)
		s.end += int64(e.length)
		s.left++
	}
	_, err = r.tail.WriteAt(b, begin)
	return n, err
}

func (r *row) last() *segment { return r.segs[len(r.segs)-1] }

// rotate begins a new segment. After an error the last one is not written to again, so
// the next persist proves that there can be one.
func (r *row) rotate() error {
	r.closeFile(&r.tail)
	id := r.nextID
	r.nextID++
	f, err := os.OpenFile(r.path(id), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(segmentMagic)
	if err == nil && !r.pulls {
		err = durable.SyncDir(r.dir)
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	r.tail = f
	r.segs = append(r.segs, &segment{id: id, end: int64(len(segmentMagic))})
	r.trim()
	return nil
}

// read is the event with its body. The error says that it cannot be read, now or any more.
func (r *row) read(e record) (record, error) {
	if e.body != nil {
		return e, nil
	}
	f, err := os.Open(r.path(e.seg.id))
	if err != nil {
		return record{}, err
	}
	defer f.Close()
	b := make([]byte, e.length)
	if _, err := f.ReadAt(b, int64(e.offset)); err != nil {
		return record{}, err
	}
	e, ok := parseRecord(b)
	if !ok {
		return record{}, errNotRecord
	}
	return e, nil
}

// pop takes the first event away. Failing to write the cursor makes events come again.
func (r *row) pop() {
	first := r.events[0]
	r.events[0] = record{}
	r.bytes -= int64(first.length)
	if r.events = r.events[1:]; len(r.events) == 0 {
		r.events = nil
	}
	if first.seg == nil {
		return
	}
	first.seg.left--
	r.trim()
	id, offset := r.last().id, r.last().end
	switch {
	case len(r.events) > 0 && r.events[0].seg != nil:
		id, offset = r.events[0].seg.id, int64(r.events[0].offset)
	case r.tail == nil:
		id, offset = r.nextID, 0
	}
	_, _ = r.cursor.WriteAt(encodeCursor(id, offset), 0)
}

// passing says whether the error is one of the process, not of the file it opens.
func passing(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// lose takes out what is in the file of the first event, which cannot be read any more.
func (r *row) lose(why error) {
	bad, lost := r.events[0].seg, 0
	for ; len(r.events) > 0 && r.events[0].seg == bad; lost++ {
		r.pop()
	}
	r.log.Error("events in a queue cannot be read any more; they are lost", zap.String("file", r.path(bad.id)), zap.Int("events", lost), zap.Error(why))
}

// trim removes the segments in front that have nothing left, except the last one,
// which may be written to.
func (r *row) trim() {
	for len(r.segs) > 1 && r.segs[0].left == 0 {
		_ = os.Remove(r.path(r.segs[0].id)) // before the cursor, so removed at the next start
		r.segs = r.segs[1:]
	}
}

func (r *row) closeFile(f **os.File) {
	if *f != nil {
		(*f).Close()
		*f = nil
	}
}

// close lets go of the files. What is in memory is lost.
func (r *row) close() error {
	r.closed = true
	r.closeFile(&r.tail)
	if r.cursor == nil {
		return nil
	}
	return r.cursor.Close()
}
