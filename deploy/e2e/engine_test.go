package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/deploy/internal/harness"
	"slipway/shared/programtest"
)

// engine is a docker daemon in namespaces of its own for processes, mounts and
// the network: its ports are free, and all that it starts ends with it.
type engine struct {
	dir  string // socket, images, volumes
	pid  int    // of the process that made the namespaces
	http *http.Client
}

// The first process of the engine's namespaces ends the daemon when its standard
// input ends, which it does with the test, however that ends.
const firstProcess = `ip link set lo up
mount --bind "$1/hosts" /etc/hosts
mount --bind "$1/docker" /etc/docker
dockerd --host "unix://$1/docker.sock" --data-root "$1/data" --exec-root "$1/exec" --pidfile "$1/pid" --bip 172.17.0.1/16 --log-level error </dev/null &
cat >/dev/null
kill $! && wait $!`

// startEngine runs dockerd in a directory of its own.
func startEngine(t *testing.T) *engine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("a docker engine of the test's own needs root")
	}
	dir, err := os.MkdirTemp("", "slipway-engine") // a socket's path has a short limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	e := &engine{dir: dir}
	e.writeHosts(t)
	input, held, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	cmd := exec.Command(programtest.Tool(t, "unshare"), "--net", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child", "sh", "-c", firstProcess, "sh", dir)
	cmd.Env, cmd.Stdin = []string{"PATH=" + debianPath}, input
	p := programtest.Launch(t, cmd)
	t.Cleanup(func() {
		held.Close()
		_ = p.Stop(t, time.Minute) // how a daemon that was told to end ends does not matter
	})
	e.pid = cmd.Process.Pid
	e.http = &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: e.dial}}
	e.waitReady(t)
	return e
}

// names that the engine reaches its own ports by.
var names = []string{"registry.localhost", "relay.localhost", "matrix.localhost"}

// writeHosts prepares what the engine sees as /etc/hosts and /etc/docker.
func (e *engine) writeHosts(t *testing.T) {
	t.Helper()
	hosts := "127.0.0.1 localhost " + strings.Join(names, " ") + "\n"
	if err := os.WriteFile(filepath.Join(e.dir, "hosts"), []byte(hosts), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(e.dir, "docker"), 0o755), os.MkdirAll("/etc/docker", 0o755)); err != nil {
		t.Fatal(err)
	}
}

// trust makes the engine trust a CA for the registry of that name.
func (e *engine) trust(t *testing.T, name string, ca []byte) {
	t.Helper()
	dir := filepath.Join(e.dir, "docker", "certs.d", name)
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "ca.crt"), ca, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// debianPath finds Debian's docker, not another that was installed beside it.
const debianPath = "/usr/sbin:/usr/bin:/sbin:/bin"

func (e *engine) waitReady(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		out, err := e.run(t, command{name: "docker", args: []string{"info"}})
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("dockerd does not answer: %s", out)
		}
	}
}

// docker runs the client to its end and returns its standard output.
func (e *engine) docker(t *testing.T, args ...string) string {
	t.Helper()
	var warnings strings.Builder
	out, err := e.run(t, command{name: "docker", args: args, stderr: &warnings})
	if err != nil {
		t.Fatalf("docker %s: %v\n%s%s", strings.Join(args, " "), err, tail(out), tail(warnings.String()))
	}
	return out
}

// command is one of Debian's clients with what it is given.
type command struct {
	name  string
	args  []string
	env   []string
	input string
	// stderr is what the second stream goes to; nil brings it together with the first.
	stderr io.Writer
}

// run runs the command against the engine, in the repository's root.
func (e *engine) run(t *testing.T, c command) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join("/usr/bin", c.name), c.args...)
	cmd.Dir, cmd.Stdin = programtest.Root(t), strings.NewReader(c.input)
	cmd.Env = append([]string{
		"PATH=" + debianPath, "HOME=" + e.dir, "LANG=C.UTF-8",
		"DOCKER_HOST=unix://" + filepath.Join(e.dir, "docker.sock"),
	}, c.env...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if c.stderr != nil {
		cmd.Stderr = c.stderr
	}
	err := cmd.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return out.String(), err
}

// dial connects from within the engine's network, where its ports are published.
func (e *engine) dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	if host, port, err := net.SplitHostPort(addr); err == nil && slices.Contains(names, host) {
		addr = net.JoinHostPort("127.0.0.1", port)
	}
	err = e.within(func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, network, addr)
		return err
	})
	return conn, err
}

// listen opens a port in the engine's network.
func (e *engine) listen(addr string) (l net.Listener, err error) {
	err = e.within(func() (err error) {
		l, err = net.Listen("tcp", addr)
		return err
	})
	return l, err
}

// within runs do, which must make its sockets itself, in the engine's network.
func (e *engine) within(do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", e.pid))
		if err != nil {
			done <- err
			return
		}
		defer f.Close()
		if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- do()
	}()
	return <-done
}

// crash ends the first process of a container as the kernel does when memory is
// short: nobody asked for it, so the engine starts the container again.
func (e *engine) crash(t *testing.T, container string) {
	t.Helper()
	pid := strings.TrimSpace(e.docker(t, "inspect", "-f", "{{.State.Pid}}", container))
	harness.Run(t, "nsenter", fmt.Sprintf("--pid=/proc/%d/ns/pid_for_children", e.pid), "kill", "-KILL", pid)
}

// tail is the end of an output, as much as a person reads.
func tail(s string) string {
	const most = 6000
	if len(s) > most {
		return "…" + s[len(s)-most:]
	}
	return s
}
