package api

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/membudget"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage/memory"
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

// Large manifests share a bounded memory while they are pushed; small ones need none
// of it.
func TestMemoryOfLargeManifests(t *testing.T) {
	s := memory.New()
	a, err := New(Options{Registry: registry.New(registry.Options{Store: s})})
	if err != nil {
		t.Fatal(err)
	}
	a.bodies = membudget.New(8<<20, 8<<20)
	read := func(ctx context.Context, size int) (release func(), err error) {
		r := httptest.NewRequestWithContext(ctx, "PUT", "/", bytes.NewReader(make([]byte, size)))
		r.ContentLength = -1
		body, release, err := a.readManifest(&request{Request: r})
		if err == nil && len(body) != size {
			t.Errorf("%d of %d bytes were read", len(body), size)
		}
		return release, err
	}
	release, err := read(t.Context(), 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.bodies.Acquire(t.Context(), "another client", 4<<20); err != nil {
		t.Fatalf("a manifest of 4 MiB holds more than its size: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := read(gone, 1<<20); code(err) != oci.CodeUnavailable {
		t.Errorf("a large manifest without room: %v", err)
	}
	if _, err := read(gone, smallBody-1); err != nil {
		t.Errorf("a small manifest without room: %v", err)
	}
	release()
	if _, err := read(t.Context(), 4<<20+1); code(err) != oci.CodeManifestInvalid {
		t.Errorf("a manifest that is too large: %v", err)
	}
	if _, err := a.bodies.Acquire(t.Context(), "another client", 4<<20); err != nil {
		t.Errorf("memory is not given back: %v", err)
	}
}
