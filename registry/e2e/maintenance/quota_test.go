package maintenance

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"slipway/registry/e2e/harness"
	"slipway/registry/internal/bytesize"
)

// Each of two servers on one storage fills a quota to the last byte and no further by its own count. What does not
// fit is refused with a sentence, and what is deleted and collected makes room.
func TestQuota(t *testing.T) {
	t.Parallel()
	const size, room, pushes = 10_000, 10, 30
	img, root := harness.NewImage(t, 301, 2, 20_000), t.TempDir()
	imageSize, layerSize := 0, 0
	for _, b := range img.Blobs {
		imageSize += len(b)
		layerSize = max(layerSize, len(b))
	}
	quota := fmt.Sprintf("REGISTRY_SLIPWAY_QUOTAS=[{prefix: team, limit: %d}]", imageSize+room*size)
	servers := []*harness.Process{harness.StartRegistry(t, root, quota), harness.StartRegistry(t, root, quota)}
	img.Push(t, servers[0].Addr, "team/app", "v1")

	blob := func(i, size int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%09d\n", i), size/10) }
	wantDenied := func(size int, resp *http.Response, body []byte) {
		t.Helper()
		sentence := "the quota of team does not allow " + bytesize.Text(int64(size)) + " more"
		if resp.StatusCode != http.StatusForbidden || !strings.Contains(string(body), `"DENIED"`) || !strings.Contains(string(body), sentence) {
			t.Errorf("got %s %s, want DENIED and %q", resp.Status, body, sentence)
		}
	}
	type stored struct{ repo, digest string }
	var mu sync.Mutex
	var taken []stored
	take := func(repo string, b []byte) {
		mu.Lock()
		defer mu.Unlock()
		taken = append(taken, stored{repo, harness.DigestOf(b)})
	}
	var all sync.WaitGroup
	for i := range pushes {
		all.Go(func() {
			repo := fmt.Sprint("team/", i%3)
			resp, body := uploadBlob(t, servers[i%2].Addr, repo, blob(i, size))
			if resp.StatusCode != http.StatusCreated {
				wantDenied(size, resp, body)
				return
			}
			take(repo, blob(i, size))
		})
	}
	all.Wait()
	limit := room + imageSize/size // of a server that counted before the other took the image
	for i := range 2 * limit {     // until both are full
		if resp, _ := uploadBlob(t, servers[i%2].Addr, "team", blob(pushes+10+i, size)); resp.StatusCode == http.StatusCreated {
			take("team", blob(pushes+10+i, size))
		}
	}
	if n := len(taken); n < room || n > 2*limit {
		t.Errorf("%d blobs were taken, want %d to %d", n, room, 2*limit)
	}
	for _, p := range servers {
		resp, body := uploadBlob(t, p.Addr, "team", blob(pushes, size))
		wantDenied(size, resp, body)
		harness.PushBlob(t, p.Addr, "teams", harness.DigestOf(blob(pushes, size)), blob(pushes, size)) // another prefix
	}

	harness.DeleteReference(t, servers[1].Addr, "team/app", img.Manifest)
	resp, body := uploadBlob(t, servers[0].Addr, "team", blob(pushes, layerSize))
	wantDenied(len(blob(pushes, layerSize)), resp, body) // its layers are there still
	for _, b := range taken {
		resp, body := harness.Fetch(t, "DELETE", "http://"+servers[0].Addr+"/v2/"+b.repo+"/blobs/"+b.digest, nil, nil)
		if resp.StatusCode != http.StatusAccepted {
			t.Errorf("DELETE of a blob: %s %s", resp.Status, body)
		}
	}
	harness.CollectGarbage(t, root, "--age", "0")
	harness.WantFreed(t, root, img)
	for i, p := range servers {
		harness.Eventually(t, "what was freed can be used", func() bool {
			resp, _ := uploadBlob(t, p.Addr, "team/new", blob(pushes+1+i, layerSize))
			return resp.StatusCode == http.StatusCreated
		})
	}
}

// uploadBlob tries to push a blob.
func uploadBlob(t testing.TB, addr, repo string, b []byte) (*http.Response, []byte) {
	t.Helper()
	resp, body := harness.Fetch(t, "POST", "http://"+addr+"/v2/"+repo+"/blobs/uploads/", nil, nil)
	if resp.StatusCode != http.StatusAccepted {
		return resp, body
	}
	return harness.Fetch(t, "PUT", harness.WithQuery(t, harness.AbsoluteURL(t, addr, resp.Header.Get("Location")), "digest", harness.DigestOf(b)), nil, bytes.NewReader(b))
}
