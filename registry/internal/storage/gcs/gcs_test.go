package gcs

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/object/buckettest"
	"slipway/registry/internal/storage/storagetest"
	"slipway/shared/programtest"
)

var (
	emulator    buckettest.Server
	emulatorURL string // "" until it runs
)

func TestMain(m *testing.M) { emulator.Main(m) }

// endpoint starts fake-gcs-server, if it does not run yet.
func endpoint(t *testing.T) string {
	t.Helper()
	if emulatorURL == "" {
		addr := programtest.FreeAddr(t)
		host, port, _ := net.SplitHostPort(addr)
		emulator.Start(t, exec.Command(programtest.Tool(t, "fake-gcs-server"), "-scheme", "http", "-host", host, "-port", port,
			"-backend", "memory", "-public-host", addr, "-external-url", "http://"+addr, "-log-level", "error"), "http://"+addr+"/storage/v1/b")
		target := &url.URL{Scheme: "http", Host: addr}
		emulatorURL = httptest.NewServer(&exact{proxy: httputil.NewSingleHostReverseProxy(target), target: target.String()}).URL
	}
	return emulatorURL
}

// exact stands before fake-gcs-server, which ignores conditions on deletions, copies and
// compositions, and makes them hold.
type exact struct {
	mu     sync.Mutex
	proxy  http.Handler
	target string
}

func (e *exact) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		e.proxy.ServeHTTP(w, r)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	want := r.URL.Query().Get("ifGenerationMatch")
	if want != "" && !strings.HasPrefix(r.URL.Path, "/upload/") {
		path, _, _ := strings.Cut(r.URL.EscapedPath(), "/rewriteTo/")
		resp, err := http.Get(e.target + strings.TrimSuffix(path, "/compose")) //nolint:noctx // the emulator answers
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		var is struct{ Generation string }
		if resp.StatusCode == http.StatusNotFound && r.Method == http.MethodDelete {
			http.Error(w, "{}", http.StatusNotFound)
			return
		}
		_ = json.NewDecoder(resp.Body).Decode(&is)
		if resp.StatusCode == http.StatusNotFound {
			is.Generation = "0"
		}
		if is.Generation != want {
			http.Error(w, "{}", http.StatusPreconditionFailed)
			return
		}
	}
	e.proxy.ServeHTTP(w, r)
}

var buckets atomic.Int64

// newBucket makes a bucket.
func newBucket(t *testing.T) *Bucket {
	t.Helper()
	b, err := New(Options{Bucket: fmt.Sprintf("test-%d", buckets.Add(1)), Endpoint: endpoint(t), UserAgent: "slipway-test", MaxLate: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	text := fmt.Sprintf(`{"name": %q}`, b.o.Bucket)
	resp, err := b.send(context.Background(), http.MethodPost, b.address(nil, "storage/v1/b"), http.Header{"Content-Type": {"application/json"}}, strings.NewReader(text), int64(len(text)), false)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if err := b.Start(t.Context(), zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	return b
}

// emulated corrects what fake-gcs-server gets wrong.
var emulated = buckettest.Options{MixesPages: true, FailsOnMissingSource: true, Unsigned: true}

func TestBucket(t *testing.T) {
	buckettest.Run(t, newBucket(t), "root/", emulated)
}

// TestContract: the bucket keeps the contract of package storage.
func TestContract(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) (x, y storage.Store) {
		bucket := newBucket(t)
		return open(t, bucket), open(t, bucket)
	})
}

// open returns the view of one process.
func open(t *testing.T, b *Bucket) storage.Store {
	t.Helper()
	limits := b.Limits()
	limits.MaxLate = 200 * time.Millisecond // the emulator does at once what it does
	client := object.NewClient(b, "root", limits, object.Timing{})
	return object.New(client, object.Options{Spool: t.TempDir(), SpoolMax: 4 << 20, Fresh: time.Second})
}
