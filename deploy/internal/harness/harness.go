// Package harness builds and runs the two services for the tests of what
// belongs to neither: configurations, units, charts, proxies, the whole stack.
package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"slipway/shared/programtest"
)

// ConfigCheck is the arguments that check a configuration which was written for
// another machine.
func ConfigCheck(service, file string) []string {
	args := []string{"config", "check", file}
	if service == "registry" { // the relay looks at no files
		args = append(args, "--skip-files")
	}
	return args
}

// Binary is the path of a service, "registry" or "relay", as the sources are
// now. It is built below bin/, where an unchanged one is left alone, so that
// each package of tests asks for it without paying for it.
func Binary(t testing.TB, service string) string {
	t.Helper()
	root := programtest.Root(t)
	dir := filepath.Join(root, "bin", "test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock := lock(t, filepath.Join(dir, service+".lock"))
	defer unlock()
	path := filepath.Join(dir, service)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-tags", "goolm", "-trimpath", "-o", path, fmt.Sprintf("slipway/%s/cmd/%s", service, service))
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", service, err, out)
	}
	return path
}

// lock waits until no other package of tests holds the file.
func lock(t testing.TB, path string) (unlock func()) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { f.Close() }
}

// Run runs a program of tools/versions.txt, or one by its path, to its end and
// returns what it wrote; the test fails if it fails.
func Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	if !strings.Contains(name, "/") {
		name = programtest.Tool(t, name)
	}
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, programtest.Tail(string(out)))
	}
	return string(out)
}
