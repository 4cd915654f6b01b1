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
)

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

func segmentName(id uint64) string {
	s := strconv.FormatUint(id, 10)
	return strings.Repeat("0", max(0, 12-len(s))) + s + segmentSuffix
}

// scannedFile is a segment as it is on the disk.
type scannedFile struct {
	*segment
	events  []record // from the cursor on, without their bodies
	content []byte
	err     error
}

// scan reads the segments of a directory, oldest first, and changes nothing. One that
// is removed meanwhile had nothing left.
func scan(dir string, each func(*scannedFile)) error {
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
		switch {
		case id > at:
			f.read(filepath.Join(dir, segmentName(id)), 0)
		case id == at:
			f.read(filepath.Join(dir, segmentName(id)), offset)
		}
		switch {
		case passing(f.err):
			return f.err
		case !errors.Is(f.err, fs.ErrNotExist):
			each(&f)
		}
	}
	return nil
}

// read finds the whole records. A file that is none of ours has none.
func (f *scannedFile) read(path string, from int64) {
	f.content, f.err = os.ReadFile(path)
	if !strings.HasPrefix(string(f.content[:min(len(f.content), len(segmentMagic))]), segmentMagic) {
		return
	}
	f.end = int64(len(segmentMagic))
	for {
		r, ok := parseRecord(f.content[f.end:])
		if !ok {
			return
		}
		if f.end >= from {
			r.seg, r.offset, r.body = f.segment, int32(f.end), nil
			f.events = append(f.events, r)
			f.left++
		}
		f.end += int64(r.length)
	}
}

// parseCursor reads a segment's number, the offset in it, and a checksum of both. A
// cursor that cannot be read stands before everything.
func parseCursor(f *os.File) (id uint64, offset int64) {
	var b [cursorSize]byte
	if n, _ := f.ReadAt(b[:], 0); n < cursorSize || binary.BigEndian.Uint32(b[16:]) != checksum(b[:16]) {
		return 0, 0
	}
	return binary.BigEndian.Uint64(b[:]), int64(binary.BigEndian.Uint64(b[8:]))
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
