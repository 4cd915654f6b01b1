package proxy

import (
	"errors"
	"os"

	"golang.org/x/sync/semaphore"
)

// spool is local disk for blobs that are being fetched.
type spool struct {
	dir  string // "" = that of the system for temporary files
	room *semaphore.Weighted
}

// errSpoolFull is the reason why a blob isn't spooled.
var errSpoolFull = errors.New("the blobs being fetched have reached proxy.spoolmax")

func newSpool(dir string, max int64) *spool {
	return &spool{dir, semaphore.NewWeighted(max)}
}

// create makes a file without a name, so that a process that dies leaves nothing behind.
func (s *spool) create() (*spoolFile, error) {
	if s.dir != "" {
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return nil, err
		}
	}
	f, err := os.CreateTemp(s.dir, "blob-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &spoolFile{File: f, spool: s}, nil
}

// spoolFile is a file of the spool. One goroutine writes while others read.
type spoolFile struct {
	*os.File
	spool    *spool
	reserved int64
}

// reserve makes room for size bytes in all.
func (f *spoolFile) reserve(size int64) error {
	more := size - f.reserved
	if more <= 0 {
		return nil
	}
	if !f.spool.room.TryAcquire(more) {
		return errSpoolFull
	}
	f.reserved += more
	return nil
}

// write appends at an offset, within the room of the spool.
func (f *spoolFile) write(p []byte, at int64) error {
	if err := f.reserve(at + int64(len(p))); err != nil {
		return err
	}
	_, err := f.WriteAt(p, at)
	return err
}

// Close frees the file's bytes.
func (f *spoolFile) Close() error {
	f.spool.room.Release(f.reserved)
	return f.File.Close()
}
