package notify

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// file is a file of a log: records behind a line that says what it is. It is only
// appended to, and removed when none of them waits.
type file struct {
	id     uint64
	path   string
	read   int64 // up to where the log has it in memory
	end    int64 // behind the last whole record
	events int   // that wait
	torn   int64 // bytes behind the end, when it was found
	err    error // why it could not be read then
}

const (
	fileMagic  = "slipway events 1"
	fileSuffix = ".events"
	cursorName = "cursor"
	cursorSize = 20
)

func fileName(id uint64) string {
	s := strconv.FormatUint(id, 10)
	return strings.Repeat("0", max(0, 12-len(s))) + s + fileSuffix
}

// scan finds what waits in the log's directory, and changes nothing there. A file that is
// removed meanwhile had nothing left.
func (l *eventLog) scan() error {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return ignoreAbsent(err)
	}
	at, offset := readCursor(filepath.Join(l.dir, cursorName))
	l.lastID = at // what is new must not be before the cursor
	var ids []uint64
	for _, e := range entries {
		number, ok := strings.CutSuffix(e.Name(), fileSuffix)
		if id, err := strconv.ParseUint(number, 10, 64); ok && err == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		f := &file{id: id, path: filepath.Join(l.dir, fileName(id))}
		var waiting []record
		switch {
		case id > at:
			waiting = f.load(0)
		case id == at:
			waiting = f.load(offset)
		}
		if passing(f.err) {
			return f.err
		}
		if errors.Is(f.err, fs.ErrNotExist) {
			continue
		}
		for i := range waiting {
			l.bytes += waiting[i].size()
			l.seq = waiting[i].seq
		}
		if len(l.front) == 0 {
			l.front, f.read = waiting, f.end
		}
		l.count += f.events
		l.lastID = max(l.lastID, id)
		l.files = append(l.files, f)
	}
	l.written = l.seq
	return nil
}

// load reads the file as it is found, and returns the records from the offset on. A file
// that is none of ours has none.
func (f *file) load(from int64) (waiting []record) {
	content, err := os.ReadFile(f.path)
	f.err = err
	if strings.HasPrefix(string(content[:min(len(content), len(fileMagic))]), fileMagic) {
		f.end = int64(len(fileMagic))
		waiting = f.parse(content[f.end:], f.end)
	}
	if n := len(waiting); n > 0 {
		f.end = waiting[n-1].end
	}
	f.torn = int64(len(content)) - f.end
	waiting = slices.DeleteFunc(waiting, func(r record) bool { return r.end <= from })
	f.read, f.events = f.end, len(waiting)
	for _, r := range waiting {
		f.read -= r.size()
	}
	return waiting
}

// parse finds the whole records that b begins with, which is at that offset of the file.
func (f *file) parse(b []byte, at int64) (all []record) {
	for {
		r, ok := parseRecord(b)
		if !ok {
			return all
		}
		b, at = b[r.size():], at+r.size()
		r.file, r.end = f, at
		all = append(all, r)
	}
}

// next reads the events that the log does not have in memory, one at least.
func (f *file) next() ([]record, error) {
	opened, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	b := make([]byte, f.end-f.read)
	if _, err := opened.ReadAt(b, f.read); err != nil {
		return nil, err
	}
	all := f.parse(b, f.read)
	if len(all) == 0 {
		return nil, errNotRecord
	}
	f.read = all[len(all)-1].end
	return all, nil
}

// passing says whether the error is one of the process, not of the file it opens.
func passing(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// readCursor reads a file's number, the offset in it, and a checksum of both. A cursor that
// cannot be read stands before everything.
func readCursor(path string) (id uint64, offset int64) {
	b, err := os.ReadFile(path)
	if err != nil || len(b) < cursorSize || binary.BigEndian.Uint32(b[16:]) != checksum(b[:16]) {
		return 0, 0
	}
	return binary.BigEndian.Uint64(b), int64(binary.BigEndian.Uint64(b[8:]))
}

func encodeCursor(id uint64, offset int64) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, cursorSize), id)
	b = binary.BigEndian.AppendUint64(b, uint64(offset))
	return binary.BigEndian.AppendUint32(b, checksum(b))
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
