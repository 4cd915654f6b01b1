package mirror

import (
	"sync"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
	"slipway/registry/internal/storage/s3/s3test"
)

// Two replicas on one bucket ask the upstream for a blob at most once each, and what one of
// them has stored the other serves.
func TestMirror_TwoReplicas(t *testing.T) { twoReplicas(t, s3test.VersityGW) }

func TestFull_Mirror_TwoReplicas(t *testing.T) { twoReplicas(t, s3test.MinIO) }

func twoReplicas(t *testing.T, start s3test.Start) {
	up := harness.StartPeer(t, harness.Distribution2.Tool, t.TempDir())
	img, next := harness.NewImage(t, 140, 10, 300_000), harness.NewImage(t, 141, 3, 300_000)
	img.Push(t, up.Addr, "app", "v1")
	next.Push(t, up.Addr, "next", "v1")
	seen := startCounter(t, up.Addr)
	place := onS3(t, start, seen.addr())
	replicas := [2]*harness.Process{place.start(t), place.start(t)}
	var clients sync.WaitGroup
	for i := range 64 {
		clients.Go(func() { img.Pulls(t, replicas[i%2].Addr, "app", "v1") })
	}
	clients.Wait()
	seen.mu.Lock()
	for d := range img.Blobs {
		if n := seen.gets["/v2/app/blobs/"+d]; n > len(replicas) || n == 0 && d != img.Manifest {
			t.Errorf("%s was fetched %d times by %d replicas", d, n, len(replicas))
		}
	}
	seen.mu.Unlock()
	for _, key := range uploadsLeft(t, place) {
		t.Errorf("%s is left", key)
	}
	next.Pulls(t, replicas[0].Addr, "next", "v1")
	waitStored(t, place, next)
	up.Kill()
	for _, r := range replicas {
		img.Pulls(t, r.Addr, "app", "v1")
		next.Pulls(t, r.Addr, "next", "v1")
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for d := range next.Blobs {
		if n := seen.gets["/v2/next/blobs/"+d]; n > 1 {
			t.Errorf("%s was fetched %d times, though the other replica has stored it", d, n)
		}
	}
}

// uploadsLeft waits until transfers have become blobs, and lists what is left of uploads.
func uploadsLeft(t *testing.T, place *place) (left []string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if left = place.uploads(); len(left) == 0 {
			break
		}
	}
	return left
}

// waitStored waits until all bytes of the image are in the cache: clients have them a moment before.
func waitStored(t *testing.T, place *place, img *harness.Image) {
	t.Helper()
	for d := range img.Blobs {
		harness.Eventually(t, d+" is stored", func() bool { return place.holds(d) })
	}
}
