// Package programtest finds, starts and ends the programs that tests run: the
// services as they are built, their peers and clients.
package programtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// Root is the repository's root directory.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir
		}
	}
	t.Fatal("no go.work above the working directory: these tests belong into the repository")
	return ""
}

// Tool is the path of a program that tools/versions.txt names; the test fails
// without it.
func Tool(t testing.TB, name string) string {
	t.Helper()
	for _, dir := range []string{filepath.Join(Root(t), ".tools", "bin"), "/usr/sbin", "/usr/bin"} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	found, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is missing; `make tools` installs it", name)
	}
	return found
}

// Skip skips a test that this machine cannot run, with the reason. Under CI, which has to
// run all of them, it fails the test instead.
func Skip(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// FreeAddr returns the loopback address, host:port, of a [FreePort].
func FreeAddr(t testing.TB) string {
	t.Helper()
	port, err := FreePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// FreePort returns a free port of 127.0.0.1. It is below those that the kernel gives to clients and to listeners on port 0, and no
// other test of this machine gets it while the process lives: nothing takes it before the test does, nor while the test's server is
// restarted.
func FreePort(ctx context.Context) (int, error) {
	const first, ports = 16384, 16384 // Linux gives ports from 32768 on, others from 49152
	var err error
	for range ports {
		port := first + rand.IntN(ports)
		if reserve(port) != nil {
			continue
		}
		var l net.Listener
		if l, err = new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no port is free: %w", err)
}

// reserve fails if a test has the port. It holds it by a name in the kernel, which goes with the process.
func reserve(port int) error {
	if runtime.GOOS != "linux" { // where sockets have no names but files
		return nil
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	syscall.CloseOnExec(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: fmt.Sprintf("@slipway-test-port-%d", port)}); err != nil {
		_ = syscall.Close(fd)
		return err
	}
	return nil
}

// Tail is the end of an output, as much as a person reads.
func Tail(s string) string {
	const most = 4000
	if len(s) > most {
		return "…" + s[len(s)-most:]
	}
	return s
}
