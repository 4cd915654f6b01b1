package migration

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// What was deleted and can be restored is invisible to distribution, which serves and lists what is
// left of the same tree, and what is restored.
func TestTrashBesideDistribution(t *testing.T) { trashBeside(t, harness.Distribution2) }

func trashBeside(t *testing.T, peer harness.Peer) {
	root := t.TempDir()
	ours := harness.StartRegistry(t, root, "REGISTRY_STORAGE_DELETE_KEEP=168h").Addr
	theirs := harness.StartPeer(t, peer.Tool, root).Addr
	kept, img := harness.NewImage(t, 401, 2, 10_000), harness.NewImage(t, 402, 2, 10_000)
	idx := harness.NewIndex(t, harness.NewImage(t, 403, 1, 5_000), harness.NewImage(t, 404, 1, 5_000))
	kept.Push(t, theirs, "trash/app", "kept")
	img.Push(t, theirs, "trash/app", "v1")
	idx.Push(t, ours, "trash/app", "multi")
	idx.Push(t, ours, "trash/gone", "multi")
	remove := func() {
		t.Helper()
		harness.DeleteReference(t, ours, "trash/app", "multi")
		harness.DeleteReference(t, ours, "trash/app", img.Manifest)
		if resp, body := harness.Fetch(t, "DELETE", "http://"+ours+"/v2/trash/gone/_slipway/repository", nil, nil); resp.StatusCode != http.StatusAccepted {
			t.Fatalf("DELETE: %s %s", resp.Status, body)
		}
	}
	remove()
	if got := harness.ListTags(t, theirs, "trash/app"); got != "kept" {
		t.Errorf("tags = %q", got)
	}
	_, catalog := harness.Fetch(t, "GET", "http://"+theirs+"/v2/_catalog", nil, nil)
	for _, name := range []string{"slipway", "_deleted"} {
		if strings.Contains(string(catalog), name) {
			t.Errorf("%s is in the catalog: %s", name, catalog)
		}
	}
	for _, gone := range []string{"trash/app/manifests/v1", "trash/app/manifests/" + img.Manifest, "trash/gone/manifests/multi", "trash/gone/manifests/" + idx.Manifest} {
		if resp, _ := harness.Fetch(t, "GET", "http://"+theirs+"/v2/"+gone, harness.AcceptAll, nil); resp.StatusCode != http.StatusNotFound {
			t.Errorf("distribution serves %s: %s", gone, resp.Status)
		}
	}
	restore := func(what string) (string, int) {
		return harness.Run(t, nil, "restore", "--config", harness.WritePeerConfig(t, "127.0.0.1:0", root), what)
	}
	for _, what := range []string{"trash/app:multi", "trash/app@" + img.Manifest, "trash/gone"} {
		if out, code := restore(what); code != 0 {
			t.Fatalf("restore %s: %d %s", what, code, out)
		}
	}
	for _, addr := range []string{ours, theirs} {
		img.Pulls(t, addr, "trash/app", "v1")
		idx.Pulls(t, addr, "trash/app", "multi")
		idx.Pulls(t, addr, "trash/gone", "multi")
	}

	// Distribution's own collection knows nothing of it and may free the bytes. Then a restore
	// fails as a whole, and what else there is stays good.
	remove()
	cmd := exec.Command(programtest.Tool(t, peer.Tool), "garbage-collect", "--delete-untagged", harness.WritePeerConfig(t, "127.0.0.1:0", root))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "OTEL_TRACES_EXPORTER=none"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("distribution can't collect: %v: %s", err, programtest.Tail(string(out)))
	}
	for _, what := range []string{"trash/app:multi", "trash/app@" + img.Manifest, "trash/gone"} {
		if out, code := restore(what); code == 0 || !strings.Contains(out, "manifest") {
			t.Errorf("restore %s: %d %s", what, code, out)
		}
	}
	for _, addr := range []string{ours, theirs} {
		kept.Pulls(t, addr, "trash/app", "kept")
		if got := harness.ListTags(t, addr, "trash/app"); got != "kept" {
			t.Errorf("tags = %q", got)
		}
	}
	img.Push(t, ours, "trash/app", "v1")
	img.Pulls(t, theirs, "trash/app", "v1")
}
