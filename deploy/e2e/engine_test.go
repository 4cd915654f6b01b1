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

	"slipway/deploy/internal/harness"
	"slipway/shared/programtest"
)

// engineVariable names the engine's directory to the test that runs beside it.
const engineVariable = "SLIPWAY_ENGINE"

// inNamespaces runs a test again in namespaces of its own for processes, mounts
// and the network: all ports are free there, and all that it starts ends with it.
func inNamespaces(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("a docker engine of the test's own needs root")
	}
	dir, err := os.MkdirTemp("", "slipway-engine") // a socket's path has a short limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	harness.Write(t, filepath.Join(dir, "hosts"), "127.0.0.1 localhost "+strings.Join(names, " ")+"\n")
	for _, made := range []string{filepath.Join(dir, "docker"), "/etc/docker"} {
		if err := os.MkdirAll(made, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const script = `chmod 644 "$1/hosts"; ip link set lo up; mount --bind "$1/hosts" /etc/hosts; mount --bind "$1/docker" /etc/docker
exec "$2" -test.run="^$3\$" -test.v -test.timeout=18m`
	runtime.LockOSThread() // the child dies with the thread that started it
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(t.Context(), "unshare", "--net", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child", "sh", "-euc", script, "sh", dir, self, t.Name())
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

// debianPath finds Debian's docker, not another that was installed beside it.
const debianPath = "/usr/sbin:/usr/bin:/sbin:/bin"

func startEngine(t *testing.T, dir string) *engine {
	t.Helper()
	e := &engine{dir}
	cmd := exec.Command("/usr/sbin/dockerd", "--host", "unix://"+dir+"/docker.sock", "--data-root", dir+"/data", "--exec-root", dir+"/exec", "--pidfile", dir+"/pid",
		"--bip", "172.17.0.1/16", "--log-level", "error")
	cmd.Env = []string{"PATH=" + debianPath}
	p := programtest.Launch(t, cmd)
	t.Cleanup(func() { _ = p.Stop(t, time.Minute) }) // how the daemon ends does not matter
	eventually(t, func() error { return e.command("docker", "info").Run() })
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
	e.importImage(t, name, []string{"-C", dir, "content"}, `CMD ["/content"]`)
	e.docker(t, "push", name)
}

// importImage makes an image of one layer out of files, given as to tar.
func (e *engine) importImage(t *testing.T, name string, files []string, changes ...string) {
	t.Helper()
	arguments := []string{"import"}
	for _, c := range changes {
		arguments = append(arguments, "-c", c)
	}
	pack, load := exec.CommandContext(t.Context(), "tar", append([]string{"-c", "--exclude=./var/cache/apt", "--exclude=./var/lib/apt/lists"}, files...)...), e.command("docker", append(arguments, "-", name)...)
	pipe, err := pack.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	load.Stdin = pipe
	if err := pack.Start(); err != nil {
		t.Fatal(err)
	}
	out, err := load.CombinedOutput()
	if packErr := pack.Wait(); err != nil || packErr != nil {
		t.Fatalf("%s: %v %s, tar: %v", name, err, out, packErr)
	}
}

// eventually waits up to two minutes until a condition holds.
func eventually(t *testing.T, holds func() error) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		err := holds()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
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
	s := &http.Server{Handler: http.FileServer(http.Dir(filepath.Join(goEnv(t, "GOMODCACHE"), "cache", "download")))}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return "http://" + l.Addr().String()
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
