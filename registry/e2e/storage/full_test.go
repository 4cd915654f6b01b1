package storage

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// A volume of distribution that is full to the last byte or inode is served, and can be freed.
// TestDelete_FullDisk of package registry has the same for volumes that this registry has written.
func TestFullVolume(t *testing.T) {
	t.Parallel()
	for name, volume := range harness.SmallVolumes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := volume(t)
			root := filepath.Join(dir, "root")
			images := fillVolume(t, root)
			programtest.FillFiles(t, filepath.Join(dir, "filler"))
			p := harness.StartRegistry(t, root, healthFast...)
			wantHeldBack(t, p.Addr, root)
			for tag, img := range images {
				if tag != "gone" {
					img.Pulls(t, p.Addr, "app", tag)
				}
			}
			// A collection beside a registry may need a file, which nobody has made before the volume was full.
			out, err := harness.CollectCommand(root, nil).CombinedOutput()
			if err != nil && !strings.Contains(string(out), "the storage is full: stop the registries") {
				t.Errorf("a collection that has no room: %v %s", err, out)
			}
			_ = p.Stop(t)
			t.Log(harness.CollectGarbage(t, root, "--age", "0s"))
			harness.WantFreed(t, root, images["gone"])
			p = harness.StartRegistry(t, root, healthFast...)
			for _, tag := range []string{"a", "b"} {
				images[tag].Pulls(t, p.Addr, "app", tag)
				harness.DeleteReference(t, p.Addr, "app", images[tag].Manifest)
			}
			if got := harness.ListTags(t, p.Addr, "app"); got != "kept" {
				t.Errorf("tags %q are left", got)
			}
			_ = p.Stop(t)
			harness.CollectGarbage(t, root, "--age", "0s")
			for i := range 150 { // for the lock files, which a registry makes that is new here
				os.Remove(filepath.Join(dir, "filler", strconv.Itoa(i)))
			}
			p = harness.StartRegistry(t, root, healthFast...)
			harness.NewImage(t, 309, 1, 20_000).Push(t, p.Addr, "app", "new")
			images["kept"].Pulls(t, p.Addr, "app", "kept")
			waitHealth(t, p.Addr, http.StatusOK)
		})
	}
}

// fillVolume pushes three images to distribution, and one that is deleted again.
func fillVolume(t *testing.T, root string) map[string]*harness.Image {
	t.Helper()
	p := harness.StartPeer(t, harness.Distribution2.Tool, root)
	images := map[string]*harness.Image{}
	for i, tag := range []string{"gone", "a", "b", "kept"} {
		images[tag] = harness.NewImage(t, uint64(300+i), 2, 100_000)
		images[tag].Push(t, p.Addr, "app", tag)
	}
	harness.DeleteReference(t, p.Addr, "app", images["gone"].Manifest)
	_ = p.Stop(t) // distribution ends with the signal
	return images
}

// wantHeldBack says that a push onto a full volume is answered with a sentence.
func wantHeldBack(t *testing.T, addr, root string) {
	t.Helper()
	resp, body := harness.Fetch(t, "POST", "http://"+addr+"/v2/app/blobs/uploads/", nil, nil)
	if resp.StatusCode < 500 || strings.Contains(string(body), root) ||
		!strings.Contains(string(body), "the storage is full") && !strings.Contains(string(body), "no space left") {
		t.Errorf("POST onto a full volume: %s %s", resp.Status, body)
	}
}
