package mirror

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
	"slipway/registry/internal/maintenance/collect"
	"slipway/shared/programtest"
)

// Two replicas on one bucket ask the upstream for a blob at most once each, and what one of
// them has stored the other serves.
func TestMirror_TwoReplicas(t *testing.T) {
	up := harness.StartPeer(t, "distribution3", t.TempDir())
	img, next := harness.NewImage(t, 140, 10, 300_000), harness.NewImage(t, 141, 3, 300_000)
	img.Push(t, up.Addr, "app", "v1")
	next.Push(t, up.Addr, "next", "v1")
	seen := startCounter(t, up.Addr)
	place := onMinIO(t, seen.addr())
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

// What has to leave a cache that replicas share leaves once, and what was pulled last stays.
func TestMirror_EvictionOfReplicas(t *testing.T) {
	t.Parallel() // it waits most of its time
	const age = time.Second
	up := harness.StartRegistry(t, t.TempDir())
	place := onMinIO(t, up.Addr)
	var replicas [2]*harness.Process
	var debug [2]string
	for i := range replicas {
		debug[i] = programtest.FreeAddr(t)
		replicas[i] = place.start(
			t, "REGISTRY_PROXY_MAXSIZE=2500000", fmt.Sprintf("REGISTRY_STORAGE_MAINTENANCE_GC={enabled: false, age: %s}", age),
			"REGISTRY_HTTP_DEBUG_ADDR="+debug[i], "REGISTRY_HTTP_DEBUG_PROMETHEUS={enabled: true, path: /metrics}",
		)
	}
	time.Sleep(12 * time.Second) // both have searched the empty caches; else they collect at first
	images := make([]*harness.Image, 4)
	for i := range images {
		if i == 2 { // the caches are full now, and what leaves them is old enough for the next collection
			time.Sleep(collect.MinAge(age))
		}
		images[i] = harness.NewImage(t, uint64(150+3*i), 2, 500_000) // about a megabyte
		images[i].Push(t, up.Addr, fmt.Sprint("app", i), "v1")
		images[i].Pulls(t, replicas[i%2].Addr, fmt.Sprint("app", i), "v1")
		waitStored(t, place, images[i])
	}
	last := len(images) - 1
	for deadline := time.Now().Add(6 * time.Minute); place.holds(largest(images[0])); time.Sleep(100 * time.Millisecond) {
		images[last].Pulls(t, replicas[1].Addr, fmt.Sprint("app", last), "v1")
		if time.Now().After(deadline) {
			t.Fatalf("nothing has left the cache\n%s\n%s", replicas[0].Output(), replicas[1].Output())
		}
	}
	if !place.holds(largest(images[last])) {
		t.Error("what is in use has left the cache")
	}
	evicted := 0.0
	for _, addr := range debug {
		_, body := harness.Fetch(t, http.MethodGet, "http://"+addr+"/metrics", nil, nil)
		for line := range strings.Lines(string(body)) {
			var n float64
			if _, err := fmt.Sscanf(line, "registry_proxy_evicted_manifests_total %g", &n); err == nil {
				evicted += n
			}
		}
	}
	if evicted < 1 || evicted > float64(last) {
		t.Errorf("%v manifests are counted as evicted, of %d that could be", evicted, last)
	}
}
