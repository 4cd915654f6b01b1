package mirror

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// startHub is a registry that clients take for Docker Hub, and a mirror of it beside
// repositories that take pushes.
func startHub(t *testing.T) (up, mirror *harness.Process) {
	t.Helper()
	up = harness.StartPeer(t, harness.Distribution2.Tool, t.TempDir())
	config := filepath.Join(t.TempDir(), "config.yml")
	addr := programtest.FreeAddr(t)
	harness.WriteFile(t, config, []byte(strings.NewReplacer("%ADDR%", addr, "%ROOT%", t.TempDir(), "%UP%", up.Addr).Replace(`version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: "%ROOT%"}}
http: {addr: "%ADDR%", secret: shared-by-all-replicas}
proxy:
  local: ["team/**"]
  upstreams:
  - {remoteurl: "http://%UP%", namespaces: [docker.io]}
  - {prefix: hub, remoteurl: "http://%UP%", namespaces: [hub.example.org]}
`)))
	return up, harness.Serve(t, addr, nil, config)
}

// A CI runner with docker, whose configuration names the mirror in two lines, pulls and
// builds on an image, and does so again when its registry is gone. It pushes to the same
// mirror.
func TestMirror_Docker(t *testing.T) {
	up, mirror := startHub(t)
	e := harness.StartEngine(t, `{"registry-mirrors": ["http://`+mirror.Addr+`"]}`)
	e.Busybox()
	e.Run("tag", "busybox:local", up.Addr+"/library/slipway-base:1")
	e.Run("push", up.Addr+"/library/slipway-base:1")
	id := strings.TrimSpace(e.Run("image", "inspect", "-f", "{{.Id}}", "busybox:local"))
	again := func() {
		t.Helper()
		e.Run("image", "rm", "--force", id)
		if out, err := e.Try("image", "inspect", id); err == nil {
			t.Fatalf("the image is still there: %s", out)
		}
	}
	for _, when := range []string{"cold", "warm", "upstream gone"} {
		if when == "upstream gone" {
			up.Kill()
		}
		again()
		e.Run("pull", "slipway-base:1")
		if back := strings.TrimSpace(e.Run("image", "inspect", "-f", "{{.Id}}", "slipway-base:1")); back != id {
			t.Errorf("%s: pulled image %s, want %s", when, back, id)
		}
		if out := e.Run("run", "--rm", "--network", "none", "slipway-base:1"); strings.TrimSpace(out) != "hello" {
			t.Errorf("%s: the image says %q", when, out)
		}
	}
	again()
	dir := t.TempDir()
	harness.WriteFile(t, filepath.Join(dir, "Dockerfile"), []byte("FROM slipway-base:1\nRUN [\"/bin/busybox\", \"true\"]\nLABEL made=here\n"))
	built := mirror.Addr + "/team/app:1"
	if out, err := harness.TryTool(t, []string{"DOCKER_CONFIG=" + e.Config, "DOCKER_BUILDKIT=1"}, "docker", "--host", e.Socket, "build", "--network", "host", "-q", "-t", built, dir); err != nil {
		t.Fatalf("BuildKit: %v\n%s", err, out)
	}
	e.Run("push", built)
	e.Run("pull", built)
}

// BuildKit without Docker, with the documented example.
func TestFull_Mirror_BuildKit(t *testing.T) {
	up, mirror := startHub(t)
	dir, err := os.MkdirTemp("", "buildkit") // a socket's path has a short limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	config, socket := filepath.Join(dir, "buildkitd.toml"), "unix://"+filepath.Join(dir, "b.sock")
	harness.WriteFile(t, config, []byte(`[registry."docker.io"]
  mirrors = ["`+mirror.Addr+`"]
[registry."`+mirror.Addr+`"]
  http = true
`))
	daemon := programtest.Launch(t, exec.Command(programtest.Tool(t, "buildkitd"), "--config", config, "--root", filepath.Join(dir, "root"), "--addr", socket,
		"--oci-worker-snapshotter", "native", "--oci-worker-net", "host", "--containerd-worker=false"))
	base := harness.ImageOf(t, runtime.GOARCH, harness.Tar(t, "greeting", []byte("hello")))
	base.Push(t, up.Addr, "library/slipway-base", "1")
	source := t.TempDir()
	harness.WriteFile(t, filepath.Join(source, "Dockerfile"), []byte("FROM slipway-base:1\nCOPY Dockerfile /made-from\n"))
	build := func() (string, error) {
		return harness.TryTool(t, nil, "buildctl", "--addr", socket, "build", "--frontend", "dockerfile.v0", "--no-cache",
			"--local", "context="+source, "--local", "dockerfile="+source, "--output", "type=local,dest="+filepath.Join(dir, "out"))
	}
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		if _, err := harness.TryTool(t, nil, "buildctl", "--addr", socket, "debug", "workers"); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("buildkitd does not answer\n%s", daemon.Output())
		}
	}
	for _, when := range []string{"cold", "upstream gone"} {
		if when == "upstream gone" {
			up.Kill()
			if out, err := harness.TryTool(t, nil, "buildctl", "--addr", socket, "prune", "--all"); err != nil {
				t.Fatalf("prune: %v\n%s", err, out)
			}
		}
		if out, err := build(); err != nil {
			t.Fatalf("%s: %v\n%s\n%s", when, err, out, daemon.Output())
		}
		if got, err := os.ReadFile(filepath.Join(dir, "out", "greeting")); err != nil || string(got) != "hello" {
			t.Errorf("%s: %q, %v", when, got, err)
		}
		os.RemoveAll(filepath.Join(dir, "out"))
	}
}

// containerd, which says which registry it means.
func TestMirror_Containerd(t *testing.T) {
	up, mirror := startHub(t)
	hosts := t.TempDir()
	for _, host := range []string{"docker.io", "hub.example.org"} {
		if err := os.MkdirAll(filepath.Join(hosts, host), 0o755); err != nil {
			t.Fatal(err)
		}
		harness.WriteFile(t, filepath.Join(hosts, host, "hosts.toml"), []byte("server = \"https://"+host+"\"\n\n[host.\"http://"+mirror.Addr+"\"]\n  capabilities = [\"pull\", \"resolve\"]\n"))
	}
	ctr := harness.StartContainerd(t)
	img := harness.NewImage(t, 21, 3, 100_000)
	img.Push(t, up.Addr, "library/slipway-base", "1")
	for _, when := range []string{"cold", "upstream gone"} {
		if when == "upstream gone" {
			up.Kill()
		}
		for _, ref := range []string{"docker.io/library/slipway-base:1", "hub.example.org/library/slipway-base:1"} {
			ctr("images", "pull", "--hosts-dir", hosts, "--snapshotter", "native", "--platform", "linux/amd64", ref)
			for d, b := range img.Blobs {
				if got := ctr("content", "get", d); got != string(b) {
					t.Errorf("%s: containerd has %d bytes of %s, want %d", when, len(got), d, len(b))
				}
			}
			ctr("images", "rm", "--sync", ref)
		}
	}
}

// podman, whose configuration maps a registry to a prefix of the mirror.
func TestMirror_Podman(t *testing.T) {
	up, mirror := startHub(t)
	config := filepath.Join(t.TempDir(), "registries.conf")
	harness.WriteFile(t, config, []byte(`unqualified-search-registries = ["docker.io"]

[[registry]]
prefix = "docker.io"
location = "docker.io"

[[registry.mirror]]
location = "`+mirror.Addr+`/hub"
insecure = true
`))
	t.Setenv("CONTAINERS_REGISTRIES_CONF", config)
	podman := harness.Podman(t, "podman")
	img := harness.NewImage(t, 24, 3, 100_000)
	img.Push(t, up.Addr, "library/slipway-base", "1")
	var id string
	for _, when := range []string{"cold", "upstream gone"} {
		if when == "upstream gone" {
			up.Kill()
		}
		got := harness.LastLine(podman("pull", "-q", "docker.io/library/slipway-base:1"))
		if id != "" && got != id {
			t.Errorf("%s: pulled %s, want %s", when, got, id)
		}
		id = got
		podman("rmi", "--all", "--force")
	}
}
