package harness

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Tunnel passes TCP connections on, until it is cut.
type Tunnel struct {
	Addr, to string

	mu     sync.Mutex
	closed bool
	active map[net.Conn]bool
}

// NewTunnel listens on a loopback address and passes its connections on to another address.
func NewTunnel(t testing.TB, to string) *Tunnel {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &Tunnel{Addr: l.Addr().String(), to: to, active: map[net.Conn]bool{}}
	t.Cleanup(func() { l.Close(); u.Cut() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go u.serve(c)
		}
	}()
	return u
}

// Cut ends all connections and, until restore, each new one.
func (u *Tunnel) Cut() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for c := range u.active {
		c.Close()
	}
}

// Restore passes new connections on again.
func (u *Tunnel) Restore() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = false
}

func (u *Tunnel) add(c net.Conn) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		c.Close()
		return false
	}
	u.active[c] = true
	return true
}

func (u *Tunnel) serve(c net.Conn) {
	defer c.Close()
	if !u.add(c) {
		return
	}
	up, err := net.Dial("tcp", u.to)
	if err != nil || !u.add(up) {
		return
	}
	defer up.Close()
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{c, up}, {up, c}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			done <- struct{}{}
		}()
	}
	<-done
	u.mu.Lock()
	delete(u.active, c)
	delete(u.active, up)
	u.mu.Unlock()
}
