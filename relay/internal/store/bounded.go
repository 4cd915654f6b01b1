package store

import (
	"net"
	"sync"
	"time"
)

// readWithin bounds each read from a server that may be stopped or cut off, so that it neither answers nor hangs up.
const readWithin = 10 * time.Second

// boundedConn is a connection whose reads fail after a while, unless its user sets a deadline. A context with a timeout for
// each query would keep a timer after the query has ended: rows outlive the call.
type boundedConn struct {
	net.Conn
	within time.Duration

	mu    sync.Mutex
	fixed bool // the user has set a deadline
}

// Read implements [net.Conn].
func (c *boundedConn) Read(b []byte) (int, error) {
	if err := c.bound(); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (c *boundedConn) bound() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fixed {
		return nil
	}
	return c.SetReadDeadline(time.Now().Add(c.within))
}

// SetDeadline implements [net.Conn].
func (c *boundedConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fixed = !t.IsZero()
	return c.Conn.SetDeadline(t)
}
