package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/shared/programtest"
)

// Engine is a docker daemon of the test's own.
type Engine struct {
	t      testing.TB
	Socket string
	Config string
}

// StartEngine runs dockerd in a directory of the test, with a configuration if one is
// given.
func StartEngine(t testing.TB, configuration ...string) *Engine {
	t.Helper()
	return StartEngineIn(t, "", configuration...)
}

// StartEngineIn runs dockerd with the directory in place of /etc/docker, where certs.d has
// the certificates that it trusts; "" leaves that alone.
func StartEngineIn(t testing.TB, etc string, configuration ...string) *Engine {
	t.Helper()
	// The socket's path has a short limit, t.TempDir is too long for it.
	dir, err := os.MkdirTemp("", "dockerd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	e := &Engine{t: t, Socket: "unix://" + filepath.Join(dir, "d.sock"), Config: filepath.Join(dir, "cli")}
	if err := os.MkdirAll(e.Config, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(programtest.Tool(t, "dockerd"), "--host", e.Socket, "--data-root", filepath.Join(dir, "data"),
		"--exec-root", filepath.Join(dir, "exec"), "--pidfile", filepath.Join(dir, "pid"),
		"--bridge", "none", "--iptables=false", "--ip6tables=false", "--log-level", "warn")
	for _, text := range configuration {
		file := filepath.Join(dir, "daemon.json")
		WriteFile(t, file, []byte(text))
		cmd.Args = append(cmd.Args, "--config-file", file)
	}
	if etc != "" {
		if err := os.MkdirAll("/etc/docker", 0o755); err != nil {
			t.Fatal(err)
		}
		mount := []string{programtest.Tool(t, "unshare"), "--mount", "sh", "-c", `mount --bind "$0" /etc/docker && exec "$@"`, etc}
		cmd = exec.Command(mount[0], append(mount[1:], cmd.Args...)...)
	}
	out := new(programtest.Output)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		done := make(chan struct{})
		go func() { cmd.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			cmd.Process.Kill()
			<-done
		}
	})
	for range 600 {
		if _, err := e.Try("info"); err == nil {
			return e
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("dockerd does not answer:\n%s", programtest.Tail(out.String()))
	return nil
}

// Try runs docker with this engine and returns its output.
func (e *Engine) Try(args ...string) (string, error) {
	return TryTool(e.t, []string{"DOCKER_CONFIG=" + e.Config}, "docker", append([]string{"--host", e.Socket}, args...)...)
}

// Run is try for commands that must succeed.
func (e *Engine) Run(args ...string) string {
	e.t.Helper()
	out, err := e.Try(args...)
	if err != nil {
		e.t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// Busybox imports a real root file system, so that an image can be run and
// built upon without any other registry.
func (e *Engine) Busybox() {
	e.t.Helper()
	dir := e.t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		e.t.Fatal(err)
	}
	program, err := os.ReadFile("/bin/busybox")
	if err != nil {
		e.t.Fatalf("%v; `make tools` installs busybox-static", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin", "busybox"), program, 0o755); err != nil {
		e.t.Fatal(err)
	}
	archive := filepath.Join(e.t.TempDir(), "busybox.tar")
	if out, err := exec.Command("tar", "-C", dir, "-cf", archive, ".").CombinedOutput(); err != nil {
		e.t.Fatalf("tar: %v\n%s", err, out)
	}
	e.Run("import", "-c", `CMD ["/bin/busybox","echo","hello"]`, archive, "busybox:local")
}

// Build makes an image of several layers on top of busybox.
func (e *Engine) Build(tag string) {
	e.t.Helper()
	dir := e.t.TempDir()
	WriteFile(e.t, filepath.Join(dir, "a"), []byte(strings.Repeat("a", 100_000)))
	WriteFile(e.t, filepath.Join(dir, "b"), []byte(tag))
	WriteFile(e.t, filepath.Join(dir, "Dockerfile"), []byte("FROM busybox:local\nCOPY a /a\nCOPY b /b\nLABEL made=here\n"))
	e.Run("build", "-q", "-t", tag, dir)
}
