package server

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hangupLook is how often clients that wait for an answer are looked at.
const hangupLook = 500 * time.Millisecond

// hangups notices the clients that hang up while their requests are answered,
// and ends those requests' contexts.
//
// net/http notices it by reading a byte, in another goroutine, for as long as
// each request lasts. That costs a tenth of a short request, nearly all of which
// are over before anybody could hang up. So here that read returns at once with
// nothing (see conn.Read), and requests that last are looked at now and then.
type hangups struct {
	mu    sync.Mutex
	conns map[*conn]struct{}
}

// watch looks until done is closed.
func (h *hangups) watch(done <-chan struct{}) {
	tick := time.NewTicker(hangupLook)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, c := range h.answering() {
				if c.hungUp() {
					c.cancel()
				}
			}
		case <-done:
			return
		}
	}
}

// answering are the connections with a request in its handler.
func (h *hangups) answering() (in []*conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.conns {
		if c.answering.Load() {
			in = append(in, c)
		}
	}
	return in
}

func (h *hangups) add(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conns == nil {
		h.conns = map[*conn]struct{}{}
	}
	h.conns[c] = struct{}{}
}

func (h *hangups) remove(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, c)
}

// connContext is the context of the requests of a connection, which ends when
// the client hangs up. What lies beneath TLS is left to net/http, whose reads of
// a byte don't come through.
func connContext(ctx context.Context, outer net.Conn) context.Context {
	c, ok := outer.(*conn)
	if !ok {
		return ctx
	}
	if _, ok := c.Conn.(syscall.Conn); !ok {
		return ctx
	}
	ctx, c.cancel = context.WithCancel(ctx)
	c.hangups.add(c)
	return ctx
}

func (c *conn) unwatch() {
	if c.cancel != nil {
		c.hangups.remove(c)
		c.cancel()
	}
}

// hungUp says whether the client has closed its side and all it sent was read.
// A request that it sent ahead hides that, as it does from net/http.
func (c *conn) hungUp() (gone bool) {
	raw, err := c.Conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		var next [1]byte
		n, _, err := unix.Recvfrom(int(fd), next[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		gone = n == 0 && err == nil || err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
	})
	return gone || err != nil
}
