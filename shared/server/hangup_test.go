package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// hearing answers only when the client has hung up, or the time is over.
func hearing(heard chan<- error, wait time.Duration) Options {
	return Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			heard <- err
			return
		}
		select {
		case <-r.Context().Done():
			heard <- r.Context().Err()
		case <-time.After(wait):
			fmt.Fprint(w, r.URL.Path)
			heard <- nil
		}
	})}
}

func TestHangupEndsTheRequest(t *testing.T) {
	t.Parallel()
	requests := map[string]string{
		"GET": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"PUT": "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
	}
	for name, request := range requests {
		for _, network := range []string{"tcp", "unix"} {
			t.Run(name+" over "+network, func(t *testing.T) {
				t.Parallel()
				heard := make(chan error, 1)
				o := hearing(heard, 10*time.Second)
				if network == "unix" {
					o.Network, o.Addr = "unix", t.TempDir()+"/s"
				}
				s := serve(t, o)
				c := dial(t, s)
				send(t, c, request)
				time.Sleep(50 * time.Millisecond) // it is being answered
				c.Close()
				select {
				case err := <-heard:
					if err == nil {
						t.Error("the request went on to its end")
					}
				case <-time.After(5 * time.Second):
					t.Fatal("the request never ended")
				}
			})
		}
	}
}

func TestWhoWaitsIsNotGone(t *testing.T) {
	t.Parallel()
	heard := make(chan error, 2)
	c := dial(t, serve(t, hearing(heard, 3*hangupLook)))
	for _, path := range []string{"/one", "/two"} {
		if status, body := get(t, c, path); status != http.StatusOK || body != path {
			t.Errorf("answer %d %q", status, body)
		}
		if err := <-heard; err != nil {
			t.Error(err)
		}
	}
}

// A request that was sent ahead is answered, too.
func TestPipelinedRequestIsNoHangup(t *testing.T) {
	t.Parallel()
	heard := make(chan error, 2)
	c := dial(t, serve(t, hearing(heard, 3*hangupLook)))
	one := "GET /one HTTP/1.1\r\nHost: x\r\n\r\n"
	send(t, c, one)
	time.Sleep(50 * time.Millisecond)
	send(t, c, strings.Replace(one, "one", "two", 1))
	for range 2 {
		if err := <-heard; err != nil {
			t.Fatal(err)
		}
	}
	answers := endsWithin(t, halfClosed(t, c), 3*time.Second)
	if strings.Count(answers, "200 OK") != 2 {
		t.Errorf("answers %q", answers)
	}
}

// net/http's buffer of 4096 bytes with a single byte free looks like its watch
// for a hangup.
func TestBufferWithOneByteFree(t *testing.T) {
	t.Parallel()
	c := dial(t, serve(t, Options{Handler: http.HandlerFunc(hello)}))
	request := "GET /" + strings.Repeat("x", 5000) + " HTTP/1.1\r\nHost: x\r\n\r\n"
	for range 3 {
		send(t, c, request[:4095])
		time.Sleep(50 * time.Millisecond)
		send(t, c, request[4095:])
		if status, _ := answer(t, c); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
	}
}

func halfClosed(t *testing.T, c net.Conn) net.Conn {
	t.Helper()
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	return c
}
