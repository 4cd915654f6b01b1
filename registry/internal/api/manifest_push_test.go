package api

import (
	"bufio"
	"bytes"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Many clients send all of a body before they read the answer.
func TestTooLargeManifestIsAnsweredToWhoSendsFirst(t *testing.T) {
	s := newServer(t)
	for _, size := range []int{5 << 20, 12 << 20} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		head := "PUT /v2/a/manifests/x HTTP/1.1\r\nHost: x\r\nContent-Length: " + strconv.Itoa(size) + "\r\n\r\n"
		if _, err := conn.Write(append([]byte(head), bytes.Repeat([]byte{' '}, size)...)); err != nil {
			t.Fatalf("%d bytes: the connection was closed over them: %v", size, err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%d bytes: %s, want 413", size, resp.Status)
		}
	}
}
