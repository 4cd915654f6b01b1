package s3_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/s3"
	"slipway/registry/internal/storage/s3/s3test"
)

// What may happen to a request on its way.
const (
	slowDown = iota // 503 SlowDown, and the store does not see it
	lost            // the store has done it, and the answer is cut off
	cut             // the connection breaks within the body, and the store does not see it
	faults
)

// A put, a deletion and an upload succeed, once each, whatever happens to the first request of
// each of them.
func TestFaults(t *testing.T) { faulty(t, s3test.VersityGW) }

func faulty(t *testing.T, start s3test.Start) {
	server := start(t, t.TempDir())
	server.Bucket(t, "faults")
	target, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // it is signed
	}}
	var mu sync.Mutex
	failing := map[string]int{} // what happens once to a request, by its method
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		fault, fails := failing[r.Method]
		delete(failing, r.Method)
		mu.Unlock()
		switch {
		case !fails:
			forward.ServeHTTP(w, r)
		case fault == slowDown:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "<Error><Code>SlowDown</Code><Message>reduce your request rate</Message></Error>")
		case fault == lost:
			forward.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		default:
			_, _ = io.CopyN(io.Discard, r.Body, 10)
			panic(http.ErrAbortHandler)
		}
	}))
	defer front.Close()
	config := server.Config("faults")
	config.Endpoint = front.URL
	bucket, err := s3.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer bucket.Close()
	limits := bucket.Limits()
	limits.MaxLate = 100 * time.Millisecond
	limits.ConditionalDelete = false
	store := object.New(object.NewClient(bucket, "root", limits, object.Timing{}), object.Options{Spool: t.TempDir()})
	for fault := range faults {
		fail := func(method string) {
			mu.Lock()
			defer mu.Unlock()
			failing[method] = fault
		}
		key := fmt.Sprintf("/tags/%d", fault)
		want := func(content string) {
			t.Helper()
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				fail(method)
			}
			if info, err := store.Stat(t.Context(), key); err != nil || info.Size != int64(len(content)) {
				t.Errorf("fault %d: Stat: %+v, %v", fault, info, err)
			}
			if got, _, err := storage.Read(t.Context(), store, key, 1<<20); err != nil || string(got) != content {
				t.Errorf("fault %d: read %d bytes, %v; want %d", fault, len(got), err, len(content))
			}
		}
		apply := func(method string, c storage.Change) {
			t.Helper()
			fail(method)
			if err := store.Apply(t.Context(), nil, storage.Stage{c}); err != nil {
				t.Fatalf("fault %d: Apply: %v", fault, err)
			}
		}
		apply(http.MethodPut, storage.Change{Key: key, Content: []byte("first"), If: storage.IfAbsent()})
		want("first")
		info, err := store.Stat(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		apply(http.MethodPut, storage.Change{Key: key, Content: []byte("second"), If: storage.IfVersion(info.Version)})
		want("second")
		u, err := store.OpenUpload(t.Context(), fmt.Sprintf("/up/%d", fault), storage.UploadOptions{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		content := strings.Repeat("0123456789abcdef", 10_000)
		if _, err := io.WriteString(u, content); err != nil {
			t.Fatal(err)
		}
		apply(http.MethodPut, storage.Change{Key: key, Upload: u})
		want(content)
		apply(http.MethodDelete, storage.Change{Key: key, Delete: true})
		if _, err := store.Stat(t.Context(), key); err == nil {
			t.Errorf("fault %d: it is still there", fault)
		}
	}
}
