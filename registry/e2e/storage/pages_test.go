package storage

import (
	"path/filepath"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
	"slipway/registry/internal/storage/s3/s3test"
)

// The first view of the list has the bucket read, and sizes appear. Where the index has a file of its
// own they are there at once after a restart, and a later push shows.
func TestIndexOfPages(t *testing.T) {
	t.Parallel()
	c := countedS3(t, s3test.MinIO(t, t.TempDir()))
	env := "REGISTRY_HTTP_UI_INDEX=" + filepath.Join(t.TempDir(), "index.db")
	p := c.start(env)
	img := harness.NewImage(t, 71, 2, 50_000)
	img.Push(t, p.Addr, "web/app", "v1")
	img.Push(t, p.Addr, "web/copy", "v1")
	page := func() string {
		t.Helper()
		resp, body := harness.Fetch(t, "GET", "http://"+p.Addr+"/ui/?in=web/", nil, nil)
		if resp.StatusCode != 200 {
			t.Fatalf("GET /ui/: %s %s", resp.Status, body)
		}
		return string(body)
	}
	sizes := func() bool { return strings.Count(page(), `data-label="Only here"`) == 2 }
	harness.Eventually(t, "sizes appear in the list", sizes)
	if err := p.Stop(t); err != nil {
		t.Fatal(err)
	}
	p = c.start(env)
	if !sizes() {
		t.Error("the index doesn't survive a restart")
	}
	other := harness.NewImage(t, 72, 1, 3_000_000)
	other.Push(t, p.Addr, "web/app", "v2")
	harness.Eventually(t, "a push shows", func() bool { return strings.Contains(page(), "3.0 MiB") })
}
