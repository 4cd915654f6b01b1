package server

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// slice is the number of bytes of an answer that a client must accept within
// Options.StallTimeout; otherwise it is disconnected.
const slice = 256 << 10

// listener accepts connections, bounds their number, and sets deadlines for their
// writes.
type listener struct {
	net.Listener
	pace  pace
	http2 bool // connections may be of HTTP/2, whose streams have deadlines of their own
	crowd *crowd
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: inner, pace: l.pace, crowd: l.crowd, host: hostOf(inner.RemoteAddr())}
		if !l.crowd.enter(c) {
			_ = inner.Close()
			continue
		}
		if l.http2 {
			limitUnsent(inner)
		}
		return c, nil
	}
}

// conn writes with a deadline, and continues after it as long as the client has taken a
// slice meanwhile. It sits beneath TLS, so that it judges what leaves the machine.
type conn struct {
	net.Conn
	pace       pace
	until      atomic.Int64 // our write deadline, 0 if it is not ours
	began      atomic.Int64 // what the client had taken when that was set
	overridden atomic.Bool  // a handler set a write deadline
	stuck      atomic.Bool  // a write has run out of time

	crowd    *crowd
	host     string
	place    *list.Element // in crowd, whose lock guards it; nil once the connection has left
	requests atomic.Int64  // in their handlers
}

// connKey is the key of a request's conn in its context.
type connKey struct{}

// withConn tells a connection's requests which it is: net/http has no other way.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (n int, err error) {
	if c.stuck.Load() {
		return 0, os.ErrDeadlineExceeded // not even TLS says goodbye to a client that takes nothing
	}
	for {
		c.arm()
		m, err := c.Conn.Write(p[n:])
		n += m
		if err == nil || !c.moves(int64(m), err) {
			return n, err
		}
	}
}

// moves reports whether a write that failed after n bytes continues: it has run out of time,
// but the client takes its bytes.
func (c *conn) moves(n int64, err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	moves := !c.overridden.Load() && max(n, taken(c.Conn)-c.began.Load()) >= int64(c.pace.slice)
	c.stuck.Store(!moves)
	return moves
}

// filePiece is the number of bytes of a file that one call asks the kernel to send.
const filePiece = 4 << 20

// ReadFrom implements io.ReaderFrom. A file leaves by the kernel's sendfile.
func (c *conn) ReadFrom(src io.Reader) (n int64, err error) {
	to, ok := c.Conn.(io.ReaderFrom)
	limited, file := fileIn(src)
	if !ok || !file {
		return io.Copy(struct{ io.Writer }{c}, src)
	}
	for limited.N > 0 {
		c.arm()
		size := min(limited.N, filePiece)
		part := io.LimitedReader{R: limited.R, N: size}
		m, err := to.ReadFrom(&part)
		n += m
		limited.N -= m
		if err == nil && part.N == 0 {
			continue
		}
		if err == nil || part.N != size-m || !c.moves(m, err) { // the file has ended, or bytes were read that couldn't be sent
			return n, err
		}
	}
	return n, nil
}

// fileIn is the reader as one with a limit, and whether a file is in it.
func fileIn(src io.Reader) (limited *io.LimitedReader, file bool) {
	limited, ok := src.(*io.LimitedReader)
	if !ok {
		limited = &io.LimitedReader{R: src, N: 1<<63 - 1}
	}
	_, file = limited.R.(syscall.Conn)
	return limited, file
}

// arm sees to it that the next write has enough time. A deadline that still has
// nearly all of its time is left alone.
func (c *conn) arm() {
	if c.overridden.Load() {
		return
	}
	now := time.Now()
	if time.Duration(c.until.Load()-now.UnixNano()) > c.pace.timeout/16*15 {
		return
	}
	until := now.Add(c.pace.timeout)
	c.until.Store(until.UnixNano())
	c.began.Store(taken(c.Conn))
	_ = c.Conn.SetWriteDeadline(until) // fails only on a closed connection, as the write will
}

// SetWriteDeadline implements net.Conn for those above (crypto/tls, when it
// closes), whose deadline then counts instead of ours. Ours is not cleared, as net/http
// asks after each request: to set it again for each answer costs more than its head.
func (c *conn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() && !c.overridden.Load() {
		return nil
	}
	c.overridden.Store(!t.IsZero())
	c.until.Store(0)
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	c.overridden.Store(!t.IsZero())
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
	c.crowd.leave(c)
	return c.Conn.Close()
}
