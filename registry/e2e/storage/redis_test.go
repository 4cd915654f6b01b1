package storage

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// Two replicas share Redis, which is not there at first, is killed and is frozen:
// pushes, pulls and deletions work at every time, and what one deletes is gone for the
// other.
func TestRedis(t *testing.T) {
	redis, root := programtest.FreeAddr(t), t.TempDir()
	debug := programtest.FreeAddr(t)
	env := []string{"REGISTRY_STORAGE_CACHE_BLOBDESCRIPTOR=redis", "REGISTRY_REDIS_ADDR=" + redis}
	a := harness.StartRegistry(t, root, append(env, "REGISTRY_HTTP_DEBUG_ADDR="+debug, "REGISTRY_HTTP_DEBUG_PROMETHEUS_ENABLED=true", "REGISTRY_LOG_LEVEL=info")...)
	b := harness.StartRegistry(t, root, env...)
	seed := uint64(0)
	works := func() {
		t.Helper()
		seed++
		img := harness.NewImage(t, seed, 2, 1000)
		img.Push(t, a.Addr, "r", "v1")
		img.Pulls(t, b.Addr, "r", "v1")
		harness.DeleteReference(t, a.Addr, "r", img.Manifest)
		for _, addr := range []string{a.Addr, b.Addr} {
			if resp, _ := harness.Fetch(t, "GET", "http://"+addr+"/v2/r/manifests/"+img.Manifest, nil, nil); resp.StatusCode != http.StatusNotFound {
				t.Errorf("a deleted manifest is answered with %d", resp.StatusCode)
			}
		}
	}
	works()

	server := harness.StartRedis(t, redis)
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		works()
		if log := a.Output(); strings.Contains(log, "Redis does not answer") && strings.Contains(log, "Redis answers again") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("Redis is not used")
		}
	}
	_, metrics := harness.Fetch(t, "GET", "http://"+debug+"/metrics", nil, nil)
	for _, name := range []string{"requests_total", "hits_total", "errors_total", "redis_seconds_count"} {
		if !strings.Contains(string(metrics), "\nregistry_storage_cache_"+name) {
			t.Errorf("there is no registry_storage_cache_%s", name)
		}
	}
	if err := syscall.Kill(server.ID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	works()
	server.Kill()
	works()
	for _, p := range []*harness.Process{a, b} {
		if err := p.Stop(t); err != nil {
			t.Errorf("ended with %v", err)
		}
	}
}
