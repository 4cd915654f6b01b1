package storage

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

var healthFast = []string{
	"REGISTRY_HEALTH_STORAGEDRIVER_ENABLED=true",
	"REGISTRY_HEALTH_STORAGEDRIVER_INTERVAL=100ms",
	"REGISTRY_HEALTH_STORAGEDRIVER_THRESHOLD=2",
}

// waitHealth polls /debug/health until it has the status.
func waitHealth(t *testing.T, addr string, want int) string {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		resp, body := harness.Fetch(t, "GET", "http://"+addr+"/debug/health", nil, nil)
		if resp.StatusCode == want {
			return string(body)
		}
		if time.Now().After(deadline) {
			t.Fatalf("/debug/health stays %s %s, want %d", resp.Status, body, want)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// On a full disk clients get an error, stored content is served, and pushes go on once there
// is space again.
func TestDiskFull(t *testing.T) {
	volume := programtest.Mount(t, "tmpfs", "size=50m")
	root := filepath.Join(volume, "root")
	debug := programtest.FreeAddr(t)
	p := harness.StartRegistry(t, root, append([]string{"REGISTRY_HTTP_DEBUG_ADDR=" + debug}, healthFast...)...)
	kept := harness.NewImage(t, 21, 2, 1<<20)
	kept.Push(t, p.Addr, "full", "kept")

	big := bytes.Repeat([]byte("0123456789abcdef"), 5<<16) // 5 MiB
	var locations []string
	var last []byte
	for i := range 20 {
		resp, body := harness.Fetch(t, "POST", "http://"+p.Addr+"/v2/full/blobs/uploads/", nil, nil)
		if resp.StatusCode != http.StatusAccepted {
			last = body
			break
		}
		location := harness.AbsoluteURL(t, p.Addr, resp.Header.Get("Location"))
		resp, body = harness.Fetch(t, "PATCH", location, http.Header{"Content-Type": {"application/octet-stream"}}, bytes.NewReader(append(big, byte(i))))
		if resp.StatusCode != http.StatusAccepted {
			if resp.StatusCode != http.StatusInternalServerError {
				t.Errorf("PATCH onto a full disk: %s %s, want 500", resp.Status, body)
			}
			last = body
			locations = append(locations, location)
			break
		}
		locations = append(locations, harness.AbsoluteURL(t, p.Addr, resp.Header.Get("Location")))
	}
	if !strings.Contains(string(last), "no space left") || strings.Contains(string(last), root) {
		t.Errorf("the answer on a full disk is %q; want a sentence about space, and no path", last)
	}
	programtest.Fill(t, filepath.Join(filepath.Dir(root), "filler")) // the request that failed has given its room back
	ballast := filepath.Join(volume, "ballast")                      // a request that failed has left nothing
	programtest.Fill(t, ballast)
	if page := waitHealth(t, debug, http.StatusServiceUnavailable); !strings.Contains(page, `"disk full"`) {
		t.Errorf("/debug/health says %s", page)
	}
	kept.Pulls(t, p.Addr, "full", "kept")

	for _, location := range locations {
		if resp, _ := harness.Fetch(t, "DELETE", stripState(t, location), nil, nil); resp.StatusCode != http.StatusNoContent {
			t.Errorf("DELETE upload on a full disk: %s", resp.Status)
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	waitHealth(t, p.Addr, http.StatusOK)
	harness.NewImage(t, 22, 2, 1<<20).Push(t, p.Addr, "full", "after")
}

func stripState(t *testing.T, location string) string {
	t.Helper()
	before, _, _ := strings.Cut(location, "?")
	return before
}
