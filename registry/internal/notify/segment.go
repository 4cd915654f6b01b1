package notify

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A segment is a file of records behind a line that says what it is.
const (
	segmentMagic  = "slipway events 1"
	segmentSuffix = ".events"
)

// segment is one file of a lane. Files before the last are never written again.
type segment struct {
	id   uint64
	end  int64 // behind the last record that is whole
	left int   // records that wait
}

func segmentName(id uint64) string {
	s := strconv.FormatUint(id, 10)
	return strings.Repeat("0", max(0, 12-len(s))) + s + segmentSuffix
}

// segmentIDs lists the segments in dir, oldest first.
func segmentIDs(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var ids []uint64
	for _, e := range entries {
		number, ok := strings.CutSuffix(e.Name(), segmentSuffix)
		if id, err := strconv.ParseUint(number, 10, 64); ok && err == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// readSegment reads the segment's records from offset on and calls each with its
// offset. It returns where the last whole one ends, and how many bytes there are
// in all: more than that is a torn end. A file that is none of ours has end 0.
func readSegment(path string, from int64, each func(offset int64, r record)) (end, length int64, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, err
	}
	length = int64(len(content))
	if !bytes.HasPrefix(content, []byte(segmentMagic)) {
		return 0, length, nil
	}
	end = int64(len(segmentMagic))
	for end < length {
		r, ok := parseRecord(content[end:])
		if !ok {
			break
		}
		if end >= from {
			each(end, r)
		}
		end += r.size()
	}
	return end, length, nil
}

// readRecordAt reads one record of an open segment.
func readRecordAt(f *os.File, offset int64) (record, error) {
	var head [recordHead]byte
	if _, err := f.ReadAt(head[:], offset); err != nil {
		return record{}, err
	}
	n, ok := bodyLength(head[:])
	if !ok {
		return record{}, errNotRecord
	}
	whole := make([]byte, recordHead+n)
	copy(whole, head[:])
	if _, err := f.ReadAt(whole[recordHead:], offset+recordHead); err != nil && !errors.Is(err, io.EOF) {
		return record{}, err
	}
	r, ok := parseRecord(whole)
	if !ok {
		return record{}, errNotRecord
	}
	return r, nil
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
