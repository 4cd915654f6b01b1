package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"slipway/shared/programtest"
)

// startHub is a registry that clients take for Docker Hub, and a mirror of it beside
// repositories that take pushes.
func startHub(t *testing.T) (up, mirror *process) {
	t.Helper()
	up = startPeer(t, "distribution3", t.TempDir())
	config := filepath.Join(t.TempDir(), "config.yml")
	addr := programtest.FreeAddr(t)
	writeFile(t, config, []byte(strings.NewReplacer("%ADDR%", addr, "%ROOT%", t.TempDir(), "%UP%", up.addr).Replace(`version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: "%ROOT%"}}
http: {addr: "%ADDR%", secret: shared-by-all-replicas}
proxy:
  local: ["team/**"]
  upstreams:
  - {remoteurl: "http://%UP%", namespaces: [docker.io]}
  - {prefix: hub, remoteurl: "http://%UP%", namespaces: [hub.example.org]}
`)))
	cmd := exec.Command(binary, "serve", config)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	return up, start(t, addr, cmd)
}

// A CI runner with docker, whose configuration names the mirror in two lines, pulls and
// builds on an image, and does so again when its registry is gone. It pushes to the same
// mirror.
func TestMirror_Docker(t *testing.T) {
	up, mirror := startHub(t)
	e := startEngine(t, `{"registry-mirrors": ["http://`+mirror.addr+`"]}`)
	e.busybox()
	e.run("tag", "busybox:local", up.addr+"/library/slipway-base:1")
	e.run("push", up.addr+"/library/slipway-base:1")
	id := strings.TrimSpace(e.run("image", "inspect", "-f", "{{.Id}}", "busybox:local"))
	again := func() {
		t.Helper()
		e.run("image", "rm", "--force", id)
		if out, err := e.try("image", "inspect", id); err == nil {
			t.Fatalf("the image is still there: %s", out)
		}
	}
	for _, when := range []string{"cold", "warm", "upstream gone"} {
		if when == "upstream gone" {
			up.Kill()
		}
		again()
		e.run("pull", "slipway-base:1")
		if back := strings.TrimSpace(e.run("image", "inspect", "-f", "{{.Id}}", "slipway-base:1")); back != id {
			t.Errorf("%s: pulled image %s, want %s", when, back, id)
		}
		if out := e.run("run", "--rm", "--network", "none", "slipway-base:1"); strings.TrimSpace(out) != "hello" {
			t.Errorf("%s: the image says %q", when, out)
		}
	}
	again()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "Dockerfile"), []byte("FROM slipway-base:1\nRUN [\"/bin/busybox\", \"true\"]\nLABEL made=here\n"))
	built := mirror.addr + "/team/app:1"
	if out, err := tryTool(t, []string{"DOCKER_CONFIG=" + e.config, "DOCKER_BUILDKIT=1"}, "docker", "--host", e.socket, "build", "--network", "host", "-q", "-t", built, dir); err != nil {
		t.Fatalf("BuildKit: %v\n%s", err, out)
	}
	e.run("push", built)
	e.run("pull", built)
}

// BuildKit without Docker, with the documented example.
func TestMirror_BuildKit(t *testing.T) {
	up, mirror := startHub(t)
	dir, err := os.MkdirTemp("", "buildkit") // a socket's path has a short limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	config, socket := filepath.Join(dir, "buildkitd.toml"), "unix://"+filepath.Join(dir, "b.sock")
	writeFile(t, config, []byte(`[registry."docker.io"]
  mirrors = ["`+mirror.addr+`"]
[registry."`+mirror.addr+`"]
  http = true
`))
	daemon := programtest.Launch(t, exec.Command(programtest.Tool(t, "buildkitd"), "--config", config, "--root", filepath.Join(dir, "root"), "--addr", socket,
		"--oci-worker-snapshotter", "native", "--oci-worker-net", "host", "--containerd-worker=false"))
	base := imageOf(t, runtime.GOARCH, tarOf(t, "greeting", []byte("hello")))
	base.push(t, up.addr, "library/slipway-base", "1")
	source := t.TempDir()
	writeFile(t, filepath.Join(source, "Dockerfile"), []byte("FROM slipway-base:1\nCOPY Dockerfile /made-from\n"))
	build := func() (string, error) {
		return tryTool(t, nil, "buildctl", "--addr", socket, "build", "--frontend", "dockerfile.v0", "--no-cache",
			"--local", "context="+source, "--local", "dockerfile="+source, "--output", "type=local,dest="+filepath.Join(dir, "out"))
	}
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		if _, err := tryTool(t, nil, "buildctl", "--addr", socket, "debug", "workers"); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("buildkitd does not answer\n%s", daemon.Output())
		}
	}
	for _, when := range []string{"cold", "upstream gone"} {
		if when == "upstream gone" {
			up.Kill()
			if out, err := tryTool(t, nil, "buildctl", "--addr", socket, "prune", "--all"); err != nil {
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
		writeFile(t, filepath.Join(hosts, host, "hosts.toml"), []byte("server = \"https://"+host+"\"\n\n[host.\"http://"+mirror.addr+"\"]\n  capabilities = [\"pull\", \"resolve\"]\n"))
	}
	ctr := startContainerd(t)
	img := newImage(t, 21, 3, 100_000)
	img.push(t, up.addr, "library/slipway-base", "1")
	for _, when := range []string{"cold", "upstream gone"} {
		if when == "upstream gone" {
			up.Kill()
		}
		for _, ref := range []string{"docker.io/library/slipway-base:1", "hub.example.org/library/slipway-base:1"} {
			ctr("images", "pull", "--hosts-dir", hosts, "--snapshotter", "native", "--platform", "linux/amd64", ref)
			for d, b := range img.blobs {
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
	writeFile(t, config, []byte(`unqualified-search-registries = ["docker.io"]

[[registry]]
prefix = "docker.io"
location = "docker.io"

[[registry.mirror]]
location = "`+mirror.addr+`/hub"
insecure = true
`))
	t.Setenv("CONTAINERS_REGISTRIES_CONF", config)
	podman := podmanArgs(t, "podman")
	img := newImage(t, 24, 3, 100_000)
	img.push(t, up.addr, "library/slipway-base", "1")
	var id string
	for _, when := range []string{"cold", "upstream gone"} {
		if when == "upstream gone" {
			up.Kill()
		}
		got := lastLine(podman("pull", "-q", "docker.io/library/slipway-base:1"))
		if id != "" && got != id {
			t.Errorf("%s: pulled %s, want %s", when, got, id)
		}
		id = got
		podman("rmi", "--all", "--force")
	}
}
