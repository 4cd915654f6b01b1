package server

import (
	"errors"
	"io"
	"math"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// listener hands out connections that end when a client takes nothing of an
// answer, and no more of them at once than allowed.
type listener struct {
	net.Listener
	pace  pace
	slots chan struct{} // nil without a bound
	done  chan struct{}
	ended atomic.Bool
}

func newListener(l net.Listener, p pace, maxConns int) *listener {
	wrapped := &listener{Listener: l, pace: p, done: make(chan struct{})}
	if maxConns > 0 {
		wrapped.slots = make(chan struct{}, maxConns)
	}
	return wrapped
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	if l.slots != nil {
		select {
		case l.slots <- struct{}{}:
		case <-l.done:
			return nil, net.ErrClosed
		}
	}
	inner, err := l.Listener.Accept()
	if err != nil {
		l.leave()
		return nil, err
	}
	return &conn{Conn: inner, pace: l.pace, queue: unknown, left: l.leave}, nil
}

// Close implements net.Listener.
func (l *listener) Close() error {
	if !l.ended.Swap(true) {
		close(l.done)
	}
	return l.Listener.Close()
}

func (l *listener) leave() {
	if l.slots != nil {
		<-l.slots
	}
}

// conn is a connection whose writes must make progress. It sits beneath TLS,
// so that it judges what leaves the machine. Deadlines are set rarely: one that
// still has most of its time is left alone.
type conn struct {
	net.Conn
	pace  pace
	until atomic.Int64 // our write deadline, 0 if it is not ours
	taken atomic.Bool  // somebody above set a write deadline of his own
	queue int64        // what the kernel held when a write last ran out of time
	stuck atomic.Bool  // a write has failed for good
	more  bool         // what is written is followed by a file (HoldHead)
	left  func()
	ended atomic.Bool
}

const unknown = -1

// Write implements net.Conn. It may outlast any number of deadlines as long as
// the client takes its bytes.
func (c *conn) Write(p []byte) (n int, err error) {
	if c.stuck.Load() {
		return 0, os.ErrDeadlineExceeded // not even TLS says goodbye to one who takes nothing
	}
	for {
		c.arm()
		m, err := c.write(p[n:])
		n += m
		if err == nil {
			c.queue = unknown
			return n, nil
		}
		if !c.movedOn(int64(m), err) {
			return n, err
		}
	}
}

func (c *conn) write(p []byte) (int, error) {
	if c.more {
		return c.writeMore(p)
	}
	return c.Conn.Write(p)
}

// ReadFrom implements io.ReaderFrom. A file leaves by the kernel's sendfile.
func (c *conn) ReadFrom(src io.Reader) (n int64, err error) {
	c.more = false // nothing follows the file
	tcp, ok := c.Conn.(*net.TCPConn)
	file, limit := fileIn(src)
	if !ok || file == nil {
		return io.Copy(struct{ io.Writer }{c}, src)
	}
	n, err = c.sendfile(tcp, io.LimitedReader{R: kernelOnly{file}, N: limit})
	if limited, ok := src.(*io.LimitedReader); ok {
		limited.N -= n
	}
	if !errors.Is(err, errNoSendfile) {
		return n, err
	}
	m, err := io.Copy(struct{ io.Writer }{c}, src)
	return n + m, err
}

// sendfile goes on after deadlines as Write does: the kernel has moved the
// file's offset by just as much as it sent.
func (c *conn) sendfile(tcp *net.TCPConn, file io.LimitedReader) (n int64, err error) {
	for {
		c.arm()
		m, err := tcp.ReadFrom(&file)
		n += m
		if err == nil {
			c.queue = unknown
			return n, nil
		}
		if !c.movedOn(m, err) {
			return n, err
		}
	}
}

// kernelOnly is a file that refuses to be read. The net package would read it
// when the file system knows no sendfile, and bytes that are read but not sent
// when a deadline passes would be lost.
type kernelOnly struct{ syscall.Conn }

var errNoSendfile = errors.New("the file system knows no sendfile")

// Read implements io.Reader.
func (kernelOnly) Read([]byte) (int, error) { return 0, errNoSendfile }

// fileIn finds the file, or nil, that src reads, and how much of it.
func fileIn(src io.Reader) (file syscall.Conn, limit int64) {
	limit = math.MaxInt64
	if l, ok := src.(*io.LimitedReader); ok {
		src, limit = l.R, l.N
	}
	file, _ = src.(syscall.Conn)
	return file, limit
}

// arm sees to it that the next write has enough time.
func (c *conn) arm() {
	if c.taken.Load() {
		return
	}
	now := time.Now()
	if time.Duration(c.until.Load()-now.UnixNano()) > c.pace.window/4*3 {
		return
	}
	until := now.Add(c.pace.window)
	c.until.Store(until.UnixNano())
	_ = c.Conn.SetWriteDeadline(until) // fails only on a closed connection, as the write will
}

// movedOn says whether a write that failed after n bytes may go on: it ran out
// of time, but the client takes bytes. The kernel wakes a writer only when a
// good part of its queue has left, which on a thin link takes minutes, so the
// queue itself is asked. The first time there is nothing to compare it with,
// and the client gets another window.
func (c *conn) movedOn(n int64, err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) || c.taken.Load() {
		return false
	}
	c.until.Store(0)
	before, now := c.queue, c.unsent()
	c.queue = now
	switch {
	case n >= c.pace.need:
		return true
	case now != unknown && before == unknown:
		return true
	case now != unknown && n+before-now >= c.pace.need:
		return true
	}
	c.stuck.Store(true)
	return false
}

// SetWriteDeadline implements net.Conn for those above (crypto/tls, when it
// closes), whose deadline then counts instead of ours.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.taken.Store(!t.IsZero())
	c.until.Store(0)
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	c.taken.Store(!t.IsZero())
	c.until.Store(0)
	return c.Conn.SetDeadline(t)
}

// CloseWrite ends our half, which net/http does before it closes a connection
// whose client may still be sending.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close implements net.Conn.
func (c *conn) Close() error {
	if !c.ended.Swap(true) {
		c.left()
	}
	return c.Conn.Close()
}
