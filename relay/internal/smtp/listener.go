package smtp

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"slipway/relay/internal/request"
)

const (
	maxConns     = 100
	maxOneConns  = 10               // of one address
	connLifetime = 30 * time.Minute // of a connection
)

// listener bounds the connections, and ends idle ones when the relay stops.
type listener struct {
	net.Listener
	mu       sync.Mutex
	conns    map[*conn]string
	draining bool
}

func newListener(l net.Listener) *listener {
	return &listener{Listener: l, conns: map[*conn]string{}}
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if taken := l.take(c); taken != nil {
			return taken, nil
		}
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = c.Write([]byte("421 4.7.0 Too many connections\r\n"))
		_ = c.Close()
	}
}

// take registers a connection, or returns nil if there are too many.
func (l *listener) take(c net.Conn) net.Conn {
	host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	key := request.Network(host)
	l.mu.Lock()
	defer l.mu.Unlock()
	same := 0
	for _, k := range l.conns {
		if k == key {
			same++
		}
	}
	if len(l.conns) >= maxConns || same >= maxOneConns || l.draining {
		return nil
	}
	taken := &conn{Conn: c, of: l, until: time.Now().Add(connLifetime)}
	l.conns[taken] = key
	return taken
}

// drain ends idle connections now, and others after their mail.
func (l *listener) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draining = true
	for c := range l.conns {
		if !c.busy.Load() {
			_ = c.Conn.SetReadDeadline(time.Now())
		}
	}
}

func (l *listener) closeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.Conn.Close()
	}
}

func (l *listener) stopping() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.draining
}

// conn is a connection with a limited lifetime.
type conn struct {
	net.Conn
	of    *listener
	until time.Time
	busy  atomic.Bool // receives a mail
}

// SetReadDeadline implements [net.Conn].
func (c *conn) SetReadDeadline(t time.Time) error {
	switch {
	case c.of.stopping() && !c.busy.Load():
		t = time.Now()
	case t.IsZero() || t.After(c.until):
		t = c.until
	}
	return c.Conn.SetReadDeadline(t)
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// busyConn returns the connection below TLS.
func busyConn(c net.Conn) *conn {
	for {
		switch under := c.(type) {
		case *conn:
			return under
		case interface{ NetConn() net.Conn }:
			c = under.NetConn()
		default:
			return nil
		}
	}
}

// secure reports whether a connection has TLS.
func secure(c net.Conn) bool {
	for {
		switch under := c.(type) {
		case *tls.Conn:
			return true
		case interface{ NetConn() net.Conn }:
			c = under.NetConn()
		default:
			return false
		}
	}
}
