package server

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// readDeadline is that of a connection. net/http sets five for each request, of
// which hardly any comes to pass, so the inner connection is told of one only
// if it is sooner than the one it has. A read that is then ended too early goes on.
type readDeadline struct {
	mu     sync.Mutex
	wanted time.Time // zero is none
	armed  time.Time // what the inner connection has
}

// set makes t the deadline, of a read that is waiting, too.
func (d *readDeadline) set(inner net.Conn, t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = t
	if t.IsZero() || !d.armed.IsZero() && !t.Before(d.armed) {
		return nil
	}
	return d.arm(inner)
}

// early says whether a read that failed did so before its time, and may go on.
func (d *readDeadline) early(inner net.Conn, err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.wanted.IsZero() && !time.Now().Before(d.wanted) {
		return false
	}
	return d.arm(inner) == nil
}

func (d *readDeadline) arm(inner net.Conn) error {
	d.armed = d.wanted
	return inner.SetReadDeadline(d.wanted)
}
