package gcs

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/storage/lease"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/object/buckettest"
	"slipway/registry/internal/storage/storagetest"
	"slipway/shared/programtest"
)

// emulator is one fake-gcs-server for all tests.
var emulator struct {
	url string
	cmd *exec.Cmd
}

func TestMain(m *testing.M) {
	code := m.Run()
	if emulator.cmd != nil {
		_ = emulator.cmd.Process.Kill()
		_ = emulator.cmd.Wait()
	}
	os.Exit(code)
}

func endpoint(t *testing.T) string {
	t.Helper()
	if emulator.url != "" {
		return emulator.url
	}
	addr := programtest.FreeAddr(t)
	host, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command(programtest.Tool(t, "fake-gcs-server"), "-scheme", "http", "-host", host, "-port", port,
		"-backend", "memory", "-public-host", addr, "-external-url", "http://"+addr, "-log-level", "error")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	emulator.cmd, emulator.url = cmd, "http://"+addr
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get("http://" + addr + "/storage/v1/b") //nolint:noctx // it answers or is not there
		if err == nil {
			resp.Body.Close()
			return emulator.url
		}
		if time.Now().After(end) {
			t.Fatalf("fake-gcs-server does not answer: %v", err)
		}
	}
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

// emulated is what fake-gcs-server gets wrong.
var emulated = buckettest.Options{IgnoresDeleteConditions: true, IgnoresCopyConditions: true, MixesPages: true, FailsOnMissingSource: true}

func TestBucket(t *testing.T) {
	buckettest.Run(t, newBucket(t), "root/", emulated)
}

// TestContract: the bucket keeps the contract of package storage. The emulator ignores
// conditions on deletions, so those are guarded.
func TestContract(t *testing.T) {
	for _, shared := range []bool{true, false} {
		t.Run(fmt.Sprintf("shared=%v", shared), func(t *testing.T) {
			t.Parallel()
			storagetest.Run(t, func(t *testing.T) (a, b storagetest.Instance) {
				bucket := newBucket(t)
				if !shared {
					only := instance(t, bucket, false)
					return only, only
				}
				return instance(t, bucket, true), instance(t, bucket, true)
			})
		})
	}
}

// instance is what one process has of the bucket.
func instance(t *testing.T, b *Bucket, shared bool) storagetest.Instance {
	t.Helper()
	limits := b.Limits()
	limits.ConditionalDelete = false
	client := object.NewClient(b, "root", limits, object.Timing{})
	leases := lease.New(client, lease.Options{Poll: 20 * time.Millisecond, MaxLate: limits.MaxLate})
	t.Cleanup(leases.Close)
	store := object.New(client, object.Options{Shared: shared, Spool: t.TempDir(), SpoolMax: 4 << 20, Guard: leases.Guard, Begin: leases.Begin})
	return storagetest.Instance{Store: store, Coordinator: leases}
}
