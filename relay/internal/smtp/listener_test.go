package smtp

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"
)

// pipeEnd is a connection from an address.
type pipeEnd struct {
	net.Conn
	from     string
	deadline time.Time
}

func (p *pipeEnd) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(p.from), Port: 1} }

func (p *pipeEnd) SetReadDeadline(t time.Time) error {
	p.deadline = t
	return nil
}

// Silent connections of a few addresses don't keep others out. What receives a mail or has sent a valid token stays.
func TestListener_SilentConnections(t *testing.T) {
	l := newListener(nil)
	dial := func(from string) *conn {
		here, there := net.Pipe()
		t.Cleanup(func() { _, _ = here.Close(), there.Close() })
		c, _ := l.take(&pipeEnd{Conn: here, from: from}).(*conn)
		return c
	}
	closed := func(c *conn) bool {
		_ = c.SetWriteDeadline(time.Now().Add(-time.Second))
		_, err := c.Write([]byte("x"))
		return errors.Is(err, net.ErrClosed) || err != nil && err.Error() == "io: read/write on closed pipe"
	}
	var all []*conn
	for host := range maxConns / maxOneConns {
		for range maxOneConns {
			c := dial(fmt.Sprintf("2001:db8:0:%d::1", host))
			c.until = c.until.Add(time.Duration(len(all)) * time.Second) // one after the other
			all = append(all, c)
		}
	}
	all[0].proven.Store(true)
	all[1].busy.Store(true)
	honest := dial("192.0.2.1")
	if honest == nil {
		t.Fatal("100 silent connections keep another address out")
	}
	if !closed(all[2]) || closed(all[0]) || closed(all[1]) {
		t.Error("another connection than the oldest silent one was closed")
	}
	if dial("192.0.2.2") == nil || closed(honest) || !closed(all[10]) {
		t.Error("an address with fewer connections gives way to one with more")
	}
	for c := range l.conns {
		c.proven.Store(true)
	}
	if dial("192.0.2.3") == nil || !closed(all[20]) {
		t.Error("idle connections with valid tokens keep another address out")
	}
	for c := range l.conns {
		c.busy.Store(true)
	}
	if dial("192.0.2.4") != nil {
		t.Error("a connection that receives a mail was closed")
	}
}

// A connection has little time until its first valid token, also for the handshake of TLS.
func TestListener_Strangers(t *testing.T) {
	l := newListener(nil)
	far := time.Now().Add(24 * time.Hour)
	here, there := net.Pipe()
	t.Cleanup(func() { _, _ = here.Close(), there.Close() })
	end := &pipeEnd{Conn: here, from: "192.0.2.1"}
	c := l.take(end).(*conn)
	for _, set := range []func(time.Time) error{c.SetReadDeadline, c.SetDeadline} {
		if err := set(far); err != nil || !end.deadline.Equal(c.until.Add(strangerTime-connLifetime)) {
			t.Errorf("a stranger may wait until %v: %v", end.deadline, err)
		}
	}
	c.proven.Store(true)
	if err := c.SetReadDeadline(far); err != nil || !end.deadline.Equal(c.until) {
		t.Errorf("a sender may wait until %v: %v", end.deadline, err)
	}
}
