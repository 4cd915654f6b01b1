package azure

import (
	"fmt"
	"net"
	"os/exec"
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

// Azurite's account.
const (
	account    = "devstoreaccount1"
	accountKey = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

var (
	azurite    buckettest.Server
	azuriteURL string // "" until it runs
)

func TestMain(m *testing.M) { azurite.Main(m) }

// serviceURL starts Azurite, if it does not run yet.
func serviceURL(t *testing.T) string {
	t.Helper()
	if azuriteURL == "" {
		addr := programtest.FreeAddr(t)
		host, port, _ := net.SplitHostPort(addr)
		azurite.Start(t, exec.Command(programtest.Tool(t, "azurite-blob"), "--blobHost", host, "--blobPort", port,
			"--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry"), "http://"+addr+"/")
		azuriteURL = "http://" + addr + "/" + account
	}
	return azuriteURL
}

var containers atomic.Int64

// newBucket makes a container.
func newBucket(t *testing.T) *Bucket {
	t.Helper()
	return makeContainer(t, Options{
		Account: account, Key: accountKey, ServiceURL: serviceURL(t), Container: fmt.Sprintf("test-%d", containers.Add(1)), UserAgent: "slipway-test",
	})
}

func makeContainer(t *testing.T, o Options) *Bucket {
	t.Helper()
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if err := b.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Start(t.Context(), "", zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBucket(t *testing.T) {
	buckettest.Run(t, newBucket(t), "root/", buckettest.Options{})
}

// Azurite lists from the beginning of a prefix, whatever startFrom says. What comes before is
// read in large pages then, not in those of the few entries that the caller wants.
func TestList_StartIsIgnored_TakesLargePages(t *testing.T) {
	b := newBucket(t)
	for i := range 50 {
		if _, err := b.Put(t.Context(), fmt.Sprintf("tags/v%02d/link", i), object.Body{}, object.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, delimited := range map[string]bool{"tags/v40/": true, "tags/v40/link": false} {
		b.noStart.Store(false)
		o := object.ListOptions{After: name, Delimited: delimited, Max: 2}
		pages, keys := 0, 0
		for more := true; more; pages++ {
			page, err := b.List(t.Context(), "tags/", o)
			if err != nil {
				t.Fatal(err)
			}
			keys, o.After, more = keys+len(page.Entries), page.Next, page.More
		}
		if pages > 2 || keys != 9 {
			t.Errorf("%d keys behind %s take %d pages, want 9 keys in 2", keys, name, pages)
		}
	}
}

// The container that distribution 2 has written: names begin with a slash.
func TestBucket_SlashedNames(t *testing.T) {
	b := newBucket(t)
	b.slash = "/"
	buckettest.Run(t, b, "", buckettest.Options{})
}

// TestContract: the container keeps the contract of package storage.
func TestContract(t *testing.T) {
	serviceURL(t) // before the suite asks for it in parallel
	storagetest.Run(t, storagetest.Emulated, func(t *testing.T) (x, y storage.Store) {
		bucket := newBucket(t)
		return open(t, bucket), open(t, bucket)
	})
}

// open returns the view of one process.
func open(t *testing.T, b *Bucket) storage.Store {
	t.Helper()
	limits := b.Limits()
	limits.MaxLate = 200 * time.Millisecond // the emulator does at once what it does
	paged := &buckettest.Paged{Bucket: b, Page: storagetest.Emulated.Page}
	client := object.NewClient(paged, "root", limits, object.Timing{})
	return object.New(client, object.Options{Spool: t.TempDir(), SpoolMax: 4 << 20, Fresh: time.Second})
}
