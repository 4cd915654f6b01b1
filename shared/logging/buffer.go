package logging

import (
	"io"
	"sync"
	"time"
)

const (
	bufferSize  = 64 << 10
	bufferDelay = 100 * time.Millisecond
)

// Buffer collects lines and writes them with one system call, 100 ms after the
// first at the latest, so a process that is killed loses at most the lines of
// that time. Unlike bufio it continues after a failed write. It is safe for
// concurrent use.
type Buffer struct {
	mu     sync.Mutex
	w      io.Writer
	buf    []byte
	closed bool
}

// NewBuffer returns a buffer in front of w.
func NewBuffer(w io.Writer) *Buffer { return &Buffer{w: w, buf: make([]byte, 0, bufferSize)} }

// Write implements io.Writer. It ignores errors of flushing earlier lines: there
// is no other log to report them to.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.buf)+len(p) > cap(b.buf) {
		_ = b.flush()
	}
	if b.closed || len(p) > cap(b.buf) {
		return b.w.Write(p)
	}
	if len(b.buf) == 0 {
		time.AfterFunc(bufferDelay, func() { _ = b.Sync() })
	}
	b.buf = append(b.buf, p...)
	return len(p), nil
}

// Sync writes the lines in the buffer.
func (b *Buffer) Sync() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.flush()
}

// Close flushes. Later writes are not buffered. It does not close the writer.
func (b *Buffer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return b.flush()
}

func (b *Buffer) flush() error {
	if len(b.buf) == 0 {
		return nil
	}
	_, err := b.w.Write(b.buf)
	b.buf = b.buf[:0]
	return err
}
