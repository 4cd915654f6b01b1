package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// serve runs a server of the options until the test ends, and fails the test if
// Run does not end cleanly.
func serve(t *testing.T, o Options) *Server {
	t.Helper()
	o.Name = "test"
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	s, err := Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, time.Second, s) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return s
}

// hello answers at once, without looking at the body.
func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

func dial(t *testing.T, s *Server) net.Conn {
	t.Helper()
	c, err := net.Dial(s.Addr().Network(), s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// get asks on an open connection and returns status and body.
func get(t *testing.T, c net.Conn, path string) (int, string) {
	t.Helper()
	send(t, c, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
	return answer(t, c)
}

func answer(t *testing.T, c net.Conn) (int, string) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// endsWithin fails the test unless the server ends the connection in time; it
// returns what came before.
func endsWithin(t *testing.T, c net.Conn, limit time.Duration) string {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(limit))
	text, err := io.ReadAll(c)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("the connection is still open after %v", limit)
	}
	return string(text)
}

func longHeader(n int) string { return strings.Repeat("x", n) }
