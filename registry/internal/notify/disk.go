package notify

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"
)

// diskLane keeps its records in files of a directory: segments, which are written
// at the end of the last, and a cursor, which says where the front is. The cursor
// is not flushed: with an old one, events are sent again.
//
// After a failed write or flush the kernel may have dropped what it was given, so
// the file is not written to again, and the next record begins a new one.
type diskLane struct {
	dir     string
	limit   int64 // bytes of a segment
	log     *zap.Logger
	segs    []segment // oldest first
	sealed  bool      // the last segment is not written to again
	tail    *os.File  // of the last segment; nil before the first record
	front   *os.File  // of the first segment; nil while nobody asked
	frontID uint64
	offset  int64 // of the first record, in the first segment
	cursor  *os.File
	first   record // the one in front, if it was read
	read    bool
	bytes   int64
	waiting int
	newest  uint64
	nextID  uint64
	entries bool // the directory has entries that are not flushed
}

// openDiskLane opens the lane in dir, which it makes if it is missing. What a
// crash has torn off at the end is cut, and said.
func openDiskLane(dir string, segmentSize int64, log *zap.Logger) (*diskLane, error) {
	if err := makeDirs(dir); err != nil {
		return nil, err
	}
	l := &diskLane{dir: dir, limit: segmentSize, log: log, sealed: true}
	var err error
	if l.cursor, err = os.OpenFile(filepath.Join(dir, cursorName), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	at, offset := parseCursor(l.cursor)
	if err := l.load(at, offset); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *diskLane) path(id uint64) string { return filepath.Join(l.dir, segmentName(id)) }

// load reads all segments from the cursor on and removes those before it.
func (l *diskLane) load(at uint64, offset int64) error {
	ids, err := segmentIDs(l.dir)
	if err != nil {
		return err
	}
	l.nextID = at + 1 // the cursor must not stand behind what is new
	for i, id := range ids {
		l.nextID = max(l.nextID, id+1)
		if id < at {
			_ = os.Remove(l.path(id)) // again at the next start, if need be
			continue
		}
		from := int64(0)
		if id == at {
			from = offset
		}
		l.loadSegment(id, from, i == len(ids)-1)
	}
	return nil
}

func (l *diskLane) loadSegment(id uint64, from int64, last bool) {
	s := segment{id: id}
	first := int64(-1)
	end, length, err := readSegment(l.path(id), from, func(offset int64, r record) {
		if first < 0 {
			first = offset
		}
		s.left++
		l.newest = max(l.newest, r.seq)
	})
	if err != nil {
		l.log.Error("a file of a queue of notifications cannot be read and is left out", zap.String("file", l.path(id)), zap.Error(err))
		return
	}
	l.cut(id, end, length, last)
	if s.left == 0 {
		_ = os.Remove(l.path(id)) // again at the next start, if need be
		return
	}
	s.end = end
	if len(l.segs) == 0 {
		l.offset = first
	}
	l.segs = append(l.segs, s)
	l.bytes += end - first
	l.waiting += s.left
}

// cut takes away what stands behind the last whole record.
func (l *diskLane) cut(id uint64, end, length int64, last bool) {
	if end == length {
		return
	}
	message := "a file of a queue of notifications is damaged; the events behind the damage are lost"
	if last {
		message = "a queue of notifications ended in the middle of an event, whose push nobody was told of; it is cut off"
	}
	l.log.Warn(message, zap.String("file", l.path(id)), zap.Int64("bytes", length-end))
	_ = os.Truncate(l.path(id), end) // else it is said again
}

// The cursor is a segment's number, the offset in it, and a checksum of both.
const (
	cursorName = "cursor"
	cursorSize = 20
)

// parseCursor reads a cursor. One that cannot be read stands before everything.
func parseCursor(f io.ReaderAt) (id uint64, offset int64) {
	var b [cursorSize]byte
	if n, _ := f.ReadAt(b[:], 0); n < cursorSize || binary.BigEndian.Uint32(b[16:]) != crc32.Checksum(b[:16], castagnoli) {
		return 0, 0
	}
	return binary.BigEndian.Uint64(b[:]), int64(binary.BigEndian.Uint64(b[8:]))
}

// writeCursor notes where the front is. Failing, it makes events come again.
func (l *diskLane) writeCursor() {
	id, offset := l.nextID, int64(0)
	if len(l.segs) > 0 {
		id, offset = l.segs[0].id, l.offset
	}
	_, _ = l.cursor.WriteAt(encodeCursor(id, offset), 0)
}

func encodeCursor(id uint64, offset int64) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, cursorSize), id)
	b = binary.BigEndian.AppendUint64(b, uint64(offset))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func (l *diskLane) append(records []record) error {
	var size int64
	for i := range records {
		size += records[i].size()
	}
	if l.tail == nil || l.sealed || l.segs[len(l.segs)-1].end+size > l.limit {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	if len(records) == 0 {
		return nil
	}
	b := make([]byte, 0, size)
	for i := range records {
		b = records[i].appendTo(b)
	}
	s := &l.segs[len(l.segs)-1]
	if _, err := l.tail.WriteAt(b, s.end); err != nil {
		l.sealed = true
		_ = l.tail.Truncate(s.end) // a torn end is cut at the next start
		return err
	}
	s.end += size
	s.left += len(records)
	l.bytes += size
	l.waiting += len(records)
	l.newest = records[len(records)-1].seq
	return nil
}

// rotate begins a new segment.
func (l *diskLane) rotate() error {
	id := l.nextID
	l.nextID++
	f, err := os.OpenFile(l.path(id), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(segmentMagic); err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	l.closeTail()
	l.tail, l.sealed, l.entries = f, false, true
	l.segs = append(l.segs, segment{id: id, end: int64(len(segmentMagic))})
	if len(l.segs) == 1 {
		l.offset = int64(len(segmentMagic))
	}
	l.trim()
	return nil
}

func (l *diskLane) closeTail() {
	if l.tail != nil {
		l.tail.Close()
		l.tail = nil
	}
}

// sync is prepared beside the others and runs beside them: only appending, which
// its caller does too, closes the tail.
func (l *diskLane) sync() func() error {
	f, entries := l.tail, l.entries
	if f == nil {
		return func() error { return nil }
	}
	l.entries = false
	return func() error {
		err := f.Sync()
		if err == nil && entries {
			err = syncDir(l.dir)
		}
		return err
	}
}

// seal ends the last segment, because a flush of it failed.
func (l *diskLane) seal() { l.sealed = true }

// head reads the first record. What cannot be read any more is lost, and said.
func (l *diskLane) head() (record, bool) {
	for !l.read && l.waiting > 0 {
		var err error
		if l.first, err = l.readFront(); err == nil {
			l.read = true
			break
		}
		l.log.Error("events in a queue of notifications cannot be read any more; they are lost",
			zap.String("file", l.path(l.segs[0].id)), zap.Int("events", l.segs[0].left), zap.Error(err))
		l.dropOldest()
	}
	return l.first, l.read
}

func (l *diskLane) readFront() (record, error) {
	if l.front == nil || l.frontID != l.segs[0].id {
		l.closeFront()
		f, err := os.Open(l.path(l.segs[0].id))
		if err != nil {
			return record{}, err
		}
		l.front, l.frontID = f, l.segs[0].id
	}
	return readRecordAt(l.front, l.offset)
}

func (l *diskLane) second() (record, bool) {
	first, ok := l.head()
	if !ok || l.waiting < 2 {
		return record{}, false
	}
	if l.segs[0].left > 1 {
		r, err := readRecordAt(l.front, l.offset+first.size())
		return r, err == nil
	}
	f, err := os.Open(l.path(l.segs[1].id))
	if err != nil {
		return record{}, false // whoever comes to it says so
	}
	defer f.Close()
	r, err := readRecordAt(f, int64(len(segmentMagic)))
	return r, err == nil
}

func (l *diskLane) closeFront() {
	if l.front != nil {
		l.front.Close()
		l.front = nil
	}
}

func (l *diskLane) advance() {
	r, ok := l.head()
	if !ok {
		return
	}
	l.offset += r.size()
	l.bytes -= r.size()
	l.waiting--
	l.segs[0].left--
	l.forgetFirst()
	l.trim()
	l.writeCursor()
}

func (l *diskLane) forgetFirst() { l.first, l.read = record{}, false }

// trim removes the segments in front that have nothing left, but for the one
// that is written to.
func (l *diskLane) trim() {
	for len(l.segs) > 1 && l.segs[0].left == 0 {
		l.removeFirst()
	}
}

func (l *diskLane) removeFirst() {
	l.closeFront()
	_ = os.Remove(l.path(l.segs[0].id)) // before the cursor, so gone at the next start
	l.segs = l.segs[1:]
	l.offset = int64(len(segmentMagic))
	l.writeCursor()
}

// dropOldest takes away the first segment.
func (l *diskLane) dropOldest() int {
	if l.waiting == 0 {
		return 0
	}
	s := &l.segs[0]
	dropped := s.left
	l.bytes -= s.end - l.offset
	l.waiting -= dropped
	s.left = 0
	l.offset = s.end
	l.forgetFirst()
	if len(l.segs) == 1 {
		l.sealed = true
	}
	l.trim()
	l.writeCursor()
	return dropped
}

func (l *diskLane) size() int64 { return l.bytes }

func (l *diskLane) count() int { return l.waiting }

func (l *diskLane) oldest() (time.Time, bool) {
	r, ok := l.head()
	return r.at, ok
}

func (l *diskLane) last() uint64 { return l.newest }

func (l *diskLane) close() error {
	l.closeTail()
	l.closeFront()
	return l.cursor.Close()
}
