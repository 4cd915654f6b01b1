package clients

import (
	"os/exec"
	"path/filepath"
	"testing"

	"slipway/registry/e2e/harness"
)

// containerd alone, without the docker engine above it, as Kubernetes has it.
func TestContainerd(t *testing.T) {
	addr := harness.StartRegistry(t, t.TempDir()).Addr
	ctr := harness.StartContainerd(t)
	images := map[string]*harness.Image{
		"image": harness.NewImage(t, 3, 3, 50_000),
		"index": harness.NewIndex(t, harness.NewImage(t, 3, 2, 20_000), harness.NewImage(t, 4, 1, 20_000)),
	}
	for kind, img := range images {
		ref := addr + "/ctr/" + kind + ":v1"
		archive := filepath.Join(t.TempDir(), "layout.tar")
		if out, err := exec.Command("tar", "-C", img.Layout(t, ref), "-cf", archive, ".").CombinedOutput(); err != nil {
			t.Fatalf("tar: %v\n%s", err, out)
		}
		ctr("images", "import", "--all-platforms", "--no-unpack", "--base-name", addr+"/ctr/"+kind, archive)
		ctr("images", "push", "--plain-http", ref)
		img.Pulls(t, addr, "ctr/"+kind, "v1")
		ctr("images", "rm", "--sync", ref)
		ctr("content", "fetch", "--plain-http", "--all-platforms", ref)
		for d, b := range img.Blobs {
			if got := ctr("content", "get", d); got != string(b) {
				t.Errorf("containerd has %d bytes of %s, want %d", len(got), d, len(b))
			}
		}
	}
	ctr("images", "pull", "--plain-http", "--snapshotter", "native", "--platform", "linux/amd64", addr+"/ctr/image:v1")
}
