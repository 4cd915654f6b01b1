package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"go.uber.org/zap"
)

// A connection without a request in a handler gives way, whatever it has sent. One with a request doesn't.
func TestMaxConns(t *testing.T) {
	for name, o := range map[string]Options{"HTTP/1": {}, "HTTP/2": {H2C: true}} {
		t.Run(name, func(t *testing.T) {
			began, release := make(chan struct{}), make(chan struct{})
			o.MaxConns = 3
			o.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/busy" {
					close(began)
					<-release
				}
				_, _ = io.WriteString(w, "hello")
			})
			s := serve(t, o)
			var protocols http.Protocols
			protocols.SetHTTP1(!o.H2C)
			protocols.SetUnencryptedHTTP2(o.H2C)
			client := &http.Client{Transport: &http.Transport{Protocols: &protocols}}
			busy := make(chan error, 1)
			go func() {
				resp, err := client.Get("http://" + s.Addr().String() + "/busy")
				if err == nil {
					err = resp.Body.Close()
				}
				busy <- err
			}()
			<-began
			idle, half := dial(t, s), dial(t, s)
			get(t, idle, "/")
			send(t, half, "GET / HTTP/1.1\r\nHost: x\r\n")
			for range 10 {
				get(t, dial(t, s), "/")
			}
			endsWithin(t, idle, time.Minute)
			endsWithin(t, half, time.Minute)
			close(release)
			if err := <-busy; err != nil {
				t.Errorf("the request in its handler: %v", err)
			}
		})
	}
}

func TestMaxConns_AllBusy_Refuses(t *testing.T) {
	began, release := make(chan struct{}, 1), make(chan struct{})
	s := serve(t, Options{MaxConns: 1, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		began <- struct{}{}
		<-release
		_, _ = io.WriteString(w, "hello")
	})})
	first := dial(t, s)
	send(t, first, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-began
	endsWithin(t, dial(t, s), time.Minute)
	close(release)
	if status, _ := answer(t, first); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
}

// crowded returns a crowd that is full of connections of hosts, busy ones with a "!".
func crowded(hosts ...string) (*crowd, []*conn) {
	w := newCrowd(len(hosts), zap.NewNop())
	var all []*conn
	for _, host := range hosts {
		c := member(w, host)
		if host[len(host)-1] == '!' {
			c.host = host[:len(host)-1]
			c.requests.Store(1)
		}
		w.enter(c)
		all = append(all, c)
	}
	return w, all
}

func member(w *crowd, host string) *conn {
	client, server := net.Pipe()
	_ = client.Close()
	return &conn{Conn: server, crowd: w, host: host}
}

func TestCrowd(t *testing.T) {
	for _, tt := range []struct {
		hosts []string
		next  string
		out   int // -1: the next is refused
	}{
		{[]string{"b", "a", "a"}, "c", 1}, // of the address with the most, the oldest
		{[]string{"b", "a", "a"}, "b", 1},
		{[]string{"b", "a", "a"}, "a", 1},
		{[]string{"b", "a!", "a!", "a!", "a!"}, "c", 4},                   // …or the newest in a handler, if it has more than a quarter
		{[]string{"a!", "b!", "a", "c!"}, "d", 2},                         // a waiting one first
		{[]string{"a!", "a!", "b", "c!", "d!", "e!", "f!", "g!"}, "h", 2}, // no more than a quarter: another address's waiting one
		{[]string{"a!", "a!", "b!"}, "a", -1},                             // its own requests don't give way
		{[]string{"a!", "a!", "b!"}, "b", -1},                             // nor for an address that then had as many
		{[]string{"a!", "b!", "c!", "d!"}, "e", -1},
		{[]string{"a", "b", "c"}, "c", -2}, // any
	} {
		w, all := crowded(tt.hosts...)
		in := w.enter(member(w, tt.next))
		out := -1
		for i, c := range all {
			if c.place == nil {
				out = i
			}
		}
		if out != tt.out && tt.out != -2 || in != (out >= 0) || w.open != len(all) {
			t.Errorf("%v, then %s: %d leaves, want %d; in: %v, open: %d", tt.hosts, tt.next, out, tt.out, in, w.open)
		}
	}
}

// However many half-open connections a few addresses hold, those of others are taken.
func TestCrowd_Flood(t *testing.T) {
	w := newCrowd(100, zap.NewNop())
	var others []*conn
	for i := range 1000 {
		w.enter(member(w, fmt.Sprint("flood", i%4)))
		if i%100 == 50 {
			c := member(w, fmt.Sprint("other", i))
			if !w.enter(c) {
				t.Fatalf("connection %d is refused", i)
			}
			others = append(others, c)
		}
	}
	for i, c := range others {
		if c.place == nil {
			t.Errorf("connection %d is closed", i)
		}
		_ = c.Close()
		_ = c.Close()
	}
	if w.open != 100-len(others) {
		t.Errorf("%d are open", w.open)
	}
}

func TestHostOf(t *testing.T) {
	for text, want := range map[string]string{"192.0.2.1:1": "192.0.2.1", "[::ffff:192.0.2.1]:1": "192.0.2.1", "[2001:db8::1:2:3:4]:1": "2001:db8::/64", "[fe80::1%eth0]:1": "fe80::/64"} {
		addr, err := net.ResolveTCPAddr("tcp", text)
		if err != nil {
			t.Fatal(err)
		}
		if got := hostOf(addr); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
	if got := hostOf(&net.UnixAddr{Name: "@"}); got != "" {
		t.Errorf("a Unix socket: %s", got)
	}
}
