package e2e

import (
	"io"
	"net"
	"sync"
	"testing"
)

// relay passes TCP connections on, until it is cut.
type relay struct {
	addr, to string

	mu     sync.Mutex
	is     bool
	active map[net.Conn]bool
}

func newRelay(t testing.TB, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{addr: l.Addr().String(), to: to, active: map[net.Conn]bool{}}
	t.Cleanup(func() { l.Close(); r.cut(true) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(c)
		}
	}()
	return r
}

// cut ends all connections and, while it is on, each new one.
func (r *relay) cut(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.is = on
	if on {
		for c := range r.active {
			c.Close()
		}
	}
}

func (r *relay) add(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.is {
		c.Close()
		return false
	}
	r.active[c] = true
	return true
}

func (r *relay) serve(c net.Conn) {
	defer c.Close()
	if !r.add(c) {
		return
	}
	up, err := net.Dial("tcp", r.to)
	if err != nil || !r.add(up) {
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
	r.mu.Lock()
	delete(r.active, c)
	delete(r.active, up)
	r.mu.Unlock()
}
