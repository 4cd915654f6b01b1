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

// Buffer gathers lines and writes many of them with one system call: at the
// latest a tenth of a second after the first, when it is full, or when Sync is
// called. It is safe for concurrent use. Close flushes and waits for its
// goroutine; writes after Close go straight through.
type Buffer struct {
	mu      sync.Mutex
	w       io.Writer
	buf     []byte
	closed  bool
	pending chan struct{} // says that buf is no longer empty
	done    chan struct{}
	ended   sync.WaitGroup
}

// NewBuffer returns a buffer in front of w.
func NewBuffer(w io.Writer) *Buffer {
	b := &Buffer{
		w:       w,
		buf:     make([]byte, 0, bufferSize),
		pending: make(chan struct{}, 1),
		done:    make(chan struct{}),
	}
	b.ended.Go(b.flushLater)
	return b
}

// Write implements io.Writer. A failure of the writer behind is not reported
// here but swallowed: nobody can be told that the log is broken.
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
		select {
		case b.pending <- struct{}{}:
		default:
		}
	}
	b.buf = append(b.buf, p...)
	return len(p), nil
}

// Sync writes what is held.
func (b *Buffer) Sync() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.flush()
}

// Close flushes and ends the buffer's goroutine. It does not close the writer.
func (b *Buffer) Close() error {
	b.mu.Lock()
	err := b.flush()
	if !b.closed {
		b.closed = true
		close(b.done)
	}
	b.mu.Unlock()
	b.ended.Wait()
	return err
}

func (b *Buffer) flush() error {
	if len(b.buf) == 0 {
		return nil
	}
	_, err := b.w.Write(b.buf)
	b.buf = b.buf[:0]
	return err
}

func (b *Buffer) flushLater() {
	timer := time.NewTimer(bufferDelay)
	timer.Stop()
	for {
		select {
		case <-b.done:
			return
		case <-b.pending:
			timer.Reset(bufferDelay)
		case <-timer.C:
			_ = b.Sync()
		}
	}
}
