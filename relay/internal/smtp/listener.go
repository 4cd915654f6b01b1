package smtp

import (
	"cmp"
	"crypto/tls"
	"errors"
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
	strangerTime = 30 * time.Second // until a connection's first valid token
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

// take registers a connection and closes another if there are too many. It returns nil if none may be closed.
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
	if same >= maxOneConns || l.draining {
		return nil
	}
	if len(l.conns) >= maxConns {
		out := l.dispensable()
		if out == nil {
			return nil
		}
		delete(l.conns, out)
		_ = out.Conn.Close()
	}
	taken := &conn{Conn: c, of: l, until: time.Now().Add(connLifetime)}
	l.conns[taken] = key
	return taken
}

// dispensable returns the connection that gives way to another, nil if all receive mails: one without a valid token if there is one, of
// the address with the most, the oldest of them. The caller must hold l.mu.
func (l *listener) dispensable() (out *conn) {
	open := map[string]int{}
	for _, key := range l.conns {
		open[key]++
	}
	rank := func(c *conn) (proven, few int) {
		if c.proven.Load() {
			proven = 1
		}
		return proven, -open[l.conns[c]]
	}
	for c := range l.conns {
		if c.busy.Load() {
			continue
		}
		if out == nil {
			out = c
			continue
		}
		proven, few := rank(c)
		outProven, outFew := rank(out)
		if cmp.Or(proven-outProven, few-outFew, c.until.Compare(out.until)) < 0 {
			out = c
		}
	}
	return out
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
	of     *listener
	until  time.Time
	busy   atomic.Bool // receives a mail
	proven atomic.Bool // has sent a valid token
}

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements [net.Conn].
func (c *conn) SetReadDeadline(t time.Time) error {
	until := c.until
	if !c.proven.Load() {
		until = until.Add(strangerTime - connLifetime)
	}
	switch {
	case c.of.stopping() && !c.busy.Load():
		t = time.Now()
	case t.IsZero() || t.After(until):
		t = until
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

// accepted returns the connection below TLS.
func accepted(c net.Conn) *conn {
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
