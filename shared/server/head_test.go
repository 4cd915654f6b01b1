package server

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// fileAnswer sends the file, or as much of it as the address says.
func fileAnswer(t *testing.T, content []byte) http.HandlerFunc {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Open(name)
		if err != nil {
			panic(err)
		}
		defer f.Close()
		n := int64(len(content))
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &n)
		defer HoldHead(r, n)()
		w.Header().Set("Content-Length", fmt.Sprint(n))
		_, _ = io.CopyN(w, f, n)
	}
}

func TestHeadAndFileLeaveTogether(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 512)
	c := dial(t, serve(t, Options{Handler: fileAnswer(t, content)}))
	send(t, c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if n, err := c.Read(make([]byte, 64<<10)); err != nil || n <= len(content) {
		t.Errorf("%d bytes came first, %v", n, err)
	}
}

// heldUp is how long the kernel would hold a head that nothing follows.
const heldUp = 200 * time.Millisecond

// Answers of every size are whole, and none waits for what does not come.
func TestHeldHeads(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	c := dial(t, serve(t, Options{Handler: fileAnswer(t, content)}))
	for _, n := range []int{0, 1, 511, 512, 513, 514, 4096, 4097, maxHeld, maxHeld + 1, 70_000, len(content)} {
		const times = 5
		began := time.Now()
		for range times {
			if status, body := get(t, c, fmt.Sprintf("/%d", n)); status != http.StatusOK || body != string(content[:n]) {
				t.Errorf("%d bytes: status %d, %d bytes", n, status, len(body))
			}
		}
		if took := time.Since(began); took >= times*heldUp {
			t.Errorf("%d answers of %d bytes took %v", times, n, took)
		}
	}
}

// A file that is not there after all leaves nothing behind that would hold up
// the next answer.
func TestReleasedHead(t *testing.T) {
	s := serve(t, Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		HoldHead(r, 4096)()
		fmt.Fprint(w, "no file")
	})})
	c := dial(t, s)
	const times = 5
	began := time.Now()
	for range times {
		if _, body := get(t, c, "/"); body != "no file" {
			t.Errorf("answer %q", body)
		}
	}
	if took := time.Since(began); took >= times*heldUp {
		t.Errorf("%d answers took %v", times, took)
	}
}
