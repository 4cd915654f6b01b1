package notify

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"
)

// diskLog keeps records in files of a directory: segments, which are only appended
// to and removed, and a cursor, which says where the front is. The cursor is not
// flushed: with an old one, events are sent again.
//
// After a failed write or flush the kernel may have dropped what it was given, so
// the segment is not written to again, and the next record begins a new one.
type diskLog struct {
	dir     string
	limit   int64 // bytes of a segment
	log     *zap.Logger
	segs    []*segment // that hold something, oldest first
	tail    *os.File   // of the last segment; nil before the first record
	sealed  bool       // the last segment is not written to again
	front   *os.File   // of the segment that was read last; nil before that
	frontID uint64
	cursor  *os.File
	nextID  uint64
	created bool // the directory has entries that are not flushed
	fsync   func(*os.File) error
}

// segment is a file of records behind a line that says what it is.
type segment struct {
	id   uint64
	end  int64 // behind the last whole record
	left int   // records that wait
}

const (
	segmentMagic  = "slipway events 1"
	segmentSuffix = ".events"
	cursorName    = "cursor"
	cursorSize    = 20
)

// openLog opens the log in dir, which it makes if it is missing, and returns what
// waits in it. What a crash has torn off at the end is cut, and logged.
func openLog(dir string, limit int64, log *zap.Logger) (l *diskLog, items []item, err error) {
	if err := makeDirs(dir); err != nil {
		return nil, nil, err
	}
	l = &diskLog{dir: dir, limit: limit, log: log, sealed: true, fsync: (*os.File).Sync}
	if l.cursor, err = os.OpenFile(filepath.Join(dir, cursorName), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, nil, err
	}
	at, _ := parseCursor(l.cursor)
	l.nextID = at + 1 // the cursor must not stand behind what is new
	err = scanLog(dir, func(f scannedFile) {
		l.nextID = max(l.nextID, f.id+1)
		items = append(items, l.load(f)...)
	})
	if err != nil {
		return nil, nil, errors.Join(err, l.close())
	}
	return l, items, nil
}

// load takes a segment over as it was found, and removes one that has nothing left.
func (l *diskLog) load(f scannedFile) []item {
	path := l.path(f.id)
	switch {
	case f.err != nil:
		l.log.Error("a file of an event queue cannot be read and is left out", zap.String("file", path), zap.Error(f.err))
		return nil
	case f.end < f.length:
		l.log.Warn("a file of an event queue ends in the middle of an event; what follows is cut off", zap.String("file", path), zap.Int64("bytes", f.length-f.end))
		_ = os.Truncate(path, f.end) // else it is logged again
	}
	if f.left == 0 {
		_ = os.Remove(path) // again at the next start, if need be
		return nil
	}
	l.segs = append(l.segs, f.segment)
	return f.items
}

// scannedFile is a segment as it is on the disk.
type scannedFile struct {
	*segment
	items  []item // from the cursor on
	length int64
	err    error
}

// scanLog reads the segments of a log, oldest first, and changes nothing. One that
// is removed meanwhile had nothing left.
func scanLog(dir string, each func(scannedFile)) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ignoreAbsent(err)
	}
	at, offset := uint64(0), int64(0)
	if f, err := os.Open(filepath.Join(dir, cursorName)); err == nil {
		at, offset = parseCursor(f)
		f.Close()
	}
	var ids []uint64
	for _, e := range entries {
		number, ok := strings.CutSuffix(e.Name(), segmentSuffix)
		if id, err := strconv.ParseUint(number, 10, 64); ok && err == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		f := scannedFile{segment: &segment{id: id}}
		if id >= at {
			from := int64(0)
			if id == at {
				from = offset
			}
			f.read(filepath.Join(dir, segmentName(id)), from)
		}
		if !errors.Is(f.err, fs.ErrNotExist) {
			each(f)
		}
	}
	return nil
}

// read finds the whole records. A file that is none of ours has none.
func (f *scannedFile) read(path string, from int64) {
	content, err := os.ReadFile(path)
	f.length, f.err = int64(len(content)), err
	if !strings.HasPrefix(string(content[:min(len(content), len(segmentMagic))]), segmentMagic) {
		return
	}
	f.end = int64(len(segmentMagic))
	for f.end < f.length {
		r, ok := parseRecord(content[f.end:])
		if !ok {
			break
		}
		if f.end >= from {
			f.items = append(f.items, newItem(&r, f.segment, f.end))
			f.left++
		}
		f.end += r.size()
	}
}

func segmentName(id uint64) string {
	s := strconv.FormatUint(id, 10)
	return strings.Repeat("0", max(0, 12-len(s))) + s + segmentSuffix
}

func (l *diskLog) path(id uint64) string { return filepath.Join(l.dir, segmentName(id)) }

// append writes records at the end and returns where they are. After an error none
// of them is there. Without any it proves that some could be written.
func (l *diskLog) append(records []record) ([]item, error) {
	size := sizeOf(records)
	if l.tail == nil || l.sealed || l.last().end+size > l.limit {
		if err := l.rotate(); err != nil {
			return nil, err
		}
	}
	s := l.last()
	b, items := make([]byte, 0, size), make([]item, len(records))
	for i := range records {
		items[i] = newItem(&records[i], s, s.end+int64(len(b)))
		b = records[i].appendTo(b)
	}
	if _, err := l.tail.WriteAt(b, s.end); err != nil {
		l.sealed = true
		_ = l.tail.Truncate(s.end) // a torn end is cut at the next start
		return nil, err
	}
	s.end += size
	s.left += len(records)
	return items, nil
}

func (l *diskLog) last() *segment { return l.segs[len(l.segs)-1] }

// rotate begins a new segment.
func (l *diskLog) rotate() error {
	id := l.nextID
	l.nextID++
	f, err := os.OpenFile(l.path(id), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(segmentMagic); err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	l.closeFile(&l.tail)
	l.tail, l.sealed, l.created = f, false, true
	l.segs = append(l.segs, &segment{id: id, end: int64(len(segmentMagic))})
	l.trim()
	return nil
}

// sync prepares a flush of what was appended before. Appending may go on beside it;
// one flush runs at a time.
func (l *diskLog) sync() (flush func() error) {
	f, created := l.tail, l.created
	if f == nil {
		return func() error { return nil }
	}
	l.created = false
	return func() error {
		err := l.fsync(f)
		if err == nil && created {
			err = syncDir(l.dir)
		}
		return err
	}
}

// read reads a record again.
func (l *diskLog) read(i item) (record, error) {
	if l.front == nil || l.frontID != i.seg.id {
		l.closeFile(&l.front)
		f, err := os.Open(l.path(i.seg.id))
		if err != nil {
			return record{}, err
		}
		l.front, l.frontID = f, i.seg.id
	}
	return readItem(l.front, i)
}

func readItem(f *os.File, i item) (record, error) {
	b := make([]byte, i.length)
	if _, err := f.ReadAt(b, int64(i.offset)); err != nil {
		return record{}, err
	}
	r, ok := parseRecord(b)
	if !ok {
		return record{}, errNotRecord
	}
	return r, nil
}

// remove takes the record in front away; next is the one behind it, if there is one.
// Failing to write the cursor makes events come again.
func (l *diskLog) remove(i item, next *item) {
	i.seg.left--
	l.trim()
	id, offset := l.nextID, int64(0)
	if next != nil {
		id, offset = next.seg.id, int64(next.offset)
	} else if l.tail != nil {
		id, offset = l.last().id, l.last().end
	}
	_, _ = l.cursor.WriteAt(encodeCursor(id, offset), 0)
}

// trim removes the segments in front that have nothing left, except the last one,
// which may be written to.
func (l *diskLog) trim() {
	for len(l.segs) > 1 && l.segs[0].left == 0 {
		if l.front != nil && l.frontID == l.segs[0].id {
			l.closeFile(&l.front)
		}
		_ = os.Remove(l.path(l.segs[0].id)) // before the cursor, so removed at the next start
		l.segs = l.segs[1:]
	}
}

func (l *diskLog) closeFile(f **os.File) {
	if *f != nil {
		(*f).Close()
		*f = nil
	}
}

func (l *diskLog) close() error {
	l.closeFile(&l.tail)
	l.closeFile(&l.front)
	return l.cursor.Close()
}

// parseCursor reads a segment's number, the offset in it, and a checksum of both. A
// cursor that cannot be read stands before everything.
func parseCursor(f *os.File) (id uint64, offset int64) {
	var b [cursorSize]byte
	if n, _ := f.ReadAt(b[:], 0); n < cursorSize || binary.BigEndian.Uint32(b[16:]) != crc32.Checksum(b[:16], castagnoli) {
		return 0, 0
	}
	return binary.BigEndian.Uint64(b[:]), int64(binary.BigEndian.Uint64(b[8:]))
}

func encodeCursor(id uint64, offset int64) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, cursorSize), id)
	b = binary.BigEndian.AppendUint64(b, uint64(offset))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// syncDir flushes the entries of a directory. File systems that cannot do that
// have nothing better.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrInvalid) {
		return err
	}
	return nil
}

// makeDirs makes the directory and those above it that are missing, durably.
func makeDirs(dir string) error { return makeDir(dir, 0o777) }

func makeDir(dir string, mode fs.FileMode) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := makeDirs(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
