package e2e

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway/shared/programtest"
	"slipway/tools/harness"
)

// engineVariable names the engine's directory to the test that runs next to it.
const engineVariable = "SLIPWAY_ENGINE"

// inNamespaces runs a test again in namespaces of its own for processes, mounts
// and the network: all ports are free there, and all that it starts ends with it.
func inNamespaces(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "slipway-engine") // a socket's path has a short limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	const script = `mkdir -p /etc/docker "$1/docker" "$1/data"; echo "127.0.0.1 localhost $4" >"$1/hosts"; chmod 644 "$1/hosts"
ip link set lo up; mount --bind "$1/hosts" /etc/hosts; mount --bind "$1/docker" /etc/docker
truncate -s 40G "$1/disk"; mkfs.ext4 -q -O ^has_journal "$1/disk"; mount -o loop "$1/disk" "$1/data" # one file is removed at once, its million files are not
exec "$2" -test.run="^$3\$" -test.v -test.timeout=18m`
	runtime.LockOSThread() // the child dies with the thread that started it
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(t.Context(), "unshare", "--net", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child", "sh", "-euc", script, "sh", dir, os.Args[0], t.Name(), strings.Join(names, " "))
	cmd.Env = append(os.Environ(), engineVariable+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// engine is a docker daemon in the directory.
type engine struct{ dir string }

// debianPath finds Debian's docker, not another that was installed next to it.
const debianPath = "/usr/sbin:/usr/bin:/sbin:/bin"

func startEngine(t *testing.T, dir string) *engine {
	t.Helper()
	e := &engine{dir}
	cmd := exec.Command("/usr/sbin/dockerd", "--host", "unix://"+dir+"/docker.sock", "--data-root", dir+"/data", "--exec-root", dir+"/exec", "--pidfile", dir+"/pid",
		"--bip", "172.17.0.1/16", "--log-level", "error")
	cmd.Env = []string{"PATH=" + debianPath}
	p := programtest.Launch(t, cmd)
	t.Cleanup(func() { _ = p.Stop(t, time.Minute) }) // how the daemon ends does not matter
	harness.Wait(t, func() error { return e.command("docker", "info").Run() })
	return e
}

// command is one of Debian's clients, for the repository's root.
func (e *engine) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join("/usr/bin", name), args...)
	cmd.Dir = "../.."
	cmd.Env = []string{"PATH=" + debianPath, "HOME=" + e.dir, "LANG=C.UTF-8", "DOCKER_HOST=unix://" + filepath.Join(e.dir, "docker.sock")}
	return cmd
}

// docker runs the client to its end and returns its standard output.
func (e *engine) docker(t *testing.T, args ...string) string {
	t.Helper()
	var out, warnings bytes.Buffer
	cmd := e.command("docker", args...)
	cmd.Stdout, cmd.Stderr = &out, &warnings
	if err := cmd.Run(); err != nil {
		t.Fatalf("docker %s: %v\n%s%s", strings.Join(args, " "), err, programtest.Tail(out.String()), programtest.Tail(warnings.String()))
	}
	return strings.TrimSpace(out.String())
}

// push makes an image of one small layer and pushes it, as anybody does.
func (e *engine) push(t *testing.T, name string) {
	t.Helper()
	dir := t.TempDir()
	harness.Write(t, filepath.Join(dir, "content"), "what is in "+name)
	e.importImage(t, name, `CMD ["/content"]`, "-C", dir, "content")
	e.docker(t, "push", name)
}

// importImage makes an image of one layer out of files, given as to tar. The
// changes are lines of a Dockerfile.
func (e *engine) importImage(t *testing.T, name, changes string, files ...string) {
	t.Helper()
	const script = `set -o pipefail; tar -c --exclude=./var/cache/apt --exclude=./var/lib/apt/lists "${@:3}" | docker import -c "$2" - "$1"`
	cmd := e.command("bash", append([]string{"-c", script, "bash", name, changes}, files...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// serveModules serves this machine's modules to the builds in the engine and
// returns the address for GOPROXY.
func serveModules(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "172.17.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go http.Serve(l, http.FileServer(http.Dir(filepath.Join(strings.TrimSpace(harness.Run(t, "go", "env", "GOMODCACHE")), "cache", "download"))))
	t.Cleanup(func() { l.Close() })
	return "http://" + l.Addr().String()
}
