package server

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// mostConns is the largest default of Options.MaxConns.
const mostConns = 16384

// defaultMaxConns leaves each connection a second file, for what it asks for, and some for the process.
func defaultMaxConns() int {
	const own, least = 100, 16
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) != nil {
		return mostConns
	}
	return int(max(least, (min(files.Cur, 2*mostConns+own)-min(files.Cur, own))/2))
}

// crowd bounds the open connections. Beyond the bound a connection replaces another, so that no address keeps the others out: of the
// address with the most connections first. It is safe for concurrent use.
type crowd struct {
	max int
	log *zap.Logger

	mu     sync.Mutex
	open   int
	hosts  map[string]*list.List // of *conn by address, oldest first
	warned time.Time
}

func newCrowd(most int, log *zap.Logger) *crowd {
	return &crowd{max: most, log: log, hosts: map[string]*list.List{}}
}

// enter takes a connection in, and closes another in its place if there are too many. It reports false if none may be closed.
func (w *crowd) enter(c *conn) bool {
	w.mu.Lock()
	var out *conn
	if full := w.open >= w.max; full {
		if out = w.dispensable(c.host); out != nil {
			w.remove(out)
		}
		w.warn(out, c)
		if out == nil {
			w.mu.Unlock()
			return false
		}
	}
	l := w.hosts[c.host]
	if l == nil {
		l = list.New()
		w.hosts[c.host] = l
	}
	c.place = l.PushBack(c)
	w.open++
	w.mu.Unlock()
	if out != nil {
		_ = out.Close()
	}
	return true
}

// leave forgets a connection. It may be called again.
func (w *crowd) leave(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(c)
}

// remove forgets a connection. The caller must hold w.mu.
func (w *crowd) remove(c *conn) {
	if c.place == nil {
		return
	}
	l := w.hosts[c.host]
	l.Remove(c.place)
	c.place = nil
	w.open--
	if l.Len() == 0 {
		delete(w.hosts, c.host)
	}
}

// dispensable returns the connection that gives way to one of host; nil if none does. A request in its handler is cut only for another
// address than one that holds more than a quarter of the connections. The caller must hold w.mu.
func (w *crowd) dispensable(host string) *conn {
	var most, mostWaiting *list.List
	for _, l := range w.hosts {
		if most == nil || l.Len() > most.Len() {
			most = l
		}
	}
	if c := oldestWaiting(most); c != nil {
		return c
	}
	own := 0
	if l := w.hosts[host]; l != nil {
		own = l.Len()
	}
	if most != nil && most.Len() > max(own+1, w.max/4) {
		return most.Back().Value.(*conn) // has done the least
	}
	for _, l := range w.hosts {
		if (mostWaiting == nil || l.Len() > mostWaiting.Len()) && oldestWaiting(l) != nil {
			mostWaiting = l
		}
	}
	return oldestWaiting(mostWaiting)
}

// oldestWaiting returns the oldest connection that has no request in a handler: it is idle, or its header isn't complete.
func oldestWaiting(l *list.List) *conn {
	if l == nil {
		return nil
	}
	for e := l.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*conn); c.requests.Load() == 0 {
			return c
		}
	}
	return nil
}

// warn logs once a minute that there are too many connections. The caller must hold w.mu.
func (w *crowd) warn(out, in *conn) {
	if time.Since(w.warned) < time.Minute {
		return
	}
	w.warned = time.Now()
	closed := in
	if out != nil {
		closed = out
	}
	w.log.Warn("too many connections: some are closed", zap.Int("limit", w.max), zap.String("closed", closed.host))
}

// hostOf returns what counts as one address: an IPv4 address, or the /64 network of an IPv6 address. All clients of a Unix socket are one.
func hostOf(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return ""
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	if ip.Is6() {
		return netip.PrefixFrom(ip, 64).Masked().String()
	}
	return ip.String()
}
