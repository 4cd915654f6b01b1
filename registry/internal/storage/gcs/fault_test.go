package gcs

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/internal/storage"
)

// An upload in parts, which another process goes on with, comes out whole though requests are
// throttled, are cut within their body, or have their answer cut after they took effect.
func TestStoreBearsFaults(t *testing.T) {
	inner := newBucket(t)
	target, err := url.Parse(endpoint(t))
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	var n, faults atomic.Int64
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		turn := n.Add(1) % 7
		if turn%2 == 0 && turn > 0 {
			faults.Add(1)
		}
		switch turn {
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 4:
			_, _ = io.CopyN(io.Discard, r.Body, 10)
			panic(http.ErrAbortHandler)
		case 6:
			forward.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		default:
			forward.ServeHTTP(w, r)
		}
	}))
	defer front.Close()
	b, err := New(Options{Bucket: inner.o.Bucket, Endpoint: front.URL, MaxLate: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	first, second := open(t, b), open(t, b)
	content := strings.Repeat("0123456789abcdef", 13<<16) // three parts and a rest
	u, err := first.OpenUpload(t.Context(), "/up/data", storage.UploadOptions{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	cut := len(content) * 2 / 3
	if _, err := io.WriteString(u, content[:cut]); err != nil {
		t.Fatal(err)
	}
	if err := u.Suspend(t.Context(), int64(cut), nil); err != nil {
		t.Fatal(err)
	}
	if u, err = second.OpenUpload(t.Context(), "/up/data", storage.UploadOptions{}); err != nil {
		t.Fatal(err)
	}
	if has, _ := u.Progress(); has != int64(cut) {
		t.Fatalf("the upload has %d bytes, want %d", has, cut)
	}
	if _, err := io.WriteString(u, content[cut:]); err != nil {
		t.Fatal(err)
	}
	if err := second.Apply(t.Context(), nil, storage.Stage{{Key: "/blob", Upload: u}}); err != nil {
		t.Fatal(err)
	}
	got, _, err := storage.Read(t.Context(), first, "/blob", 64<<20)
	if err != nil || string(got) != content {
		t.Errorf("read %d bytes, %v; want %d", len(got), err, len(content))
	}
	if faults.Load() < 5 {
		t.Errorf("%d faults", faults.Load())
	}
}
