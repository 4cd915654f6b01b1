package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/shared/programtest"
)

// containerd alone, without the docker engine above it, as Kubernetes has it.
func TestContainerd(t *testing.T) {
	addr := startSlipway(t, t.TempDir()).addr
	ctr := startContainerd(t)
	images := map[string]*image{
		"image": newImage(t, 3, 3, 50_000),
		"index": newIndex(t, newImage(t, 3, 2, 20_000), newImage(t, 4, 1, 20_000)),
	}
	for kind, img := range images {
		ref := addr + "/ctr/" + kind + ":v1"
		archive := filepath.Join(t.TempDir(), "layout.tar")
		if out, err := exec.Command("tar", "-C", img.layout(t, ref), "-cf", archive, ".").CombinedOutput(); err != nil {
			t.Fatalf("tar: %v\n%s", err, out)
		}
		ctr("images", "import", "--all-platforms", "--no-unpack", "--base-name", addr+"/ctr/"+kind, archive)
		ctr("images", "push", "--plain-http", ref)
		img.pulls(t, addr, "ctr/"+kind, "v1")
		ctr("images", "rm", "--sync", ref)
		ctr("content", "fetch", "--plain-http", "--all-platforms", ref)
		for d, b := range img.blobs {
			if got := ctr("content", "get", d); got != string(b) {
				t.Errorf("containerd has %d bytes of %s, want %d", len(got), d, len(b))
			}
		}
	}
	ctr("images", "pull", "--plain-http", "--snapshotter", "native", "--platform", "linux/amd64", addr+"/ctr/image:v1")
}

// startContainerd runs containerd in a directory of the test and gives back its
// client.
func startContainerd(t *testing.T) func(args ...string) string {
	t.Helper()
	socket := containerdSocket(t)
	return func(args ...string) string {
		t.Helper()
		out, err := exec.Command(programtest.Tool(t, "ctr"), append([]string{"--address", socket}, args...)...).Output()
		if err != nil {
			t.Fatalf("ctr %s: %v\n%s", strings.Join(args, " "), err, errorOutput(err))
		}
		return string(out)
	}
}

// containerdSocket runs containerd in a directory of the test and gives back where it listens.
func containerdSocket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "containerd") // a socket's path has a short limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	config := filepath.Join(dir, "config.toml")
	writeFile(t, config, []byte("version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n"))
	socket := filepath.Join(dir, "c.sock")
	cmd := exec.Command(programtest.Tool(t, "containerd"), "--config", config, "--root", filepath.Join(dir, "root"), "--state", filepath.Join(dir, "state"), "--address", socket, "--log-level", "warn")
	p := programtest.Launch(t, cmd)
	deadline := time.Now().Add(20 * time.Second)
	for {
		out, err := tryTool(t, nil, "ctr", "--address", socket, "version")
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("containerd does not answer: %s\n%s", out, p.Output())
		}
		time.Sleep(100 * time.Millisecond)
	}
	return socket
}
