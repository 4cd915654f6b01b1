package gcs

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/gcs/gcstest"
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
		emulatorURL = httptest.NewServer(gcstest.New(&url.URL{Scheme: "http", Host: addr})).URL
	}
	return emulatorURL
}

var buckets atomic.Int64

// newBucket makes a bucket. A nil signer signs nothing.
func newBucket(t *testing.T, signer *Signer) *Bucket {
	t.Helper()
	b, err := New(Options{Signer: signer, Bucket: fmt.Sprintf("test-%d", buckets.Add(1)), Endpoint: endpoint(t), UserAgent: "slipway-test", MaxLate: time.Second})
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

// signer returns a signer with a key of its own.
func signer(t *testing.T) *Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return &Signer{Email: "me@example.com", Key: key}
}

func TestBucket(t *testing.T) {
	buckettest.Run(t, newBucket(t, nil), "root/", buckettest.Options{MixesPages: true, Unsigned: true})
}

func TestBucket_Signed(t *testing.T) {
	buckettest.Run(t, newBucket(t, signer(t)), "root/", buckettest.Options{MixesPages: true})
}

// TestContract: the bucket keeps the contract of package storage. Locks and deletions are signed requests of the XML interface, which
// expire.
func TestContract(t *testing.T) {
	endpoint(t) // before the suite asks for it in parallel
	storagetest.Run(t, storagetest.Emulated, func(t *testing.T) (x, y storage.Store) {
		bucket := newBucket(t, signer(t))
		return open(t, bucket), open(t, bucket)
	})
}

// TestFull_Contract_Unsigned is TestContract for an account that can't sign: all requests have the JSON interface.
func TestFull_Contract_Unsigned(t *testing.T) {
	endpoint(t)
	storagetest.Run(t, storagetest.Emulated, func(t *testing.T) (x, y storage.Store) {
		bucket := newBucket(t, nil)
		return open(t, bucket), open(t, bucket)
	})
}

// open returns the view of one process.
func open(t *testing.T, b *Bucket) storage.Store {
	t.Helper()
	limits := b.Limits()
	limits.MaxLate = 200 * time.Millisecond // the emulator does at once what it does
	paged := &buckettest.Paged{Bucket: b, Page: storagetest.Emulated.Page, Mixes: true}
	client := object.NewClient(paged, "root", limits, object.Timing{})
	return object.New(client, object.Options{Spool: t.TempDir(), SpoolMax: 4 << 20, Fresh: time.Second})
}
