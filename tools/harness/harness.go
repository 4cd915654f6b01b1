// Package harness builds and runs the two services for the tests of what
// belongs to neither: configurations, units, charts, proxies, the whole stack.
package harness

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway/shared/programtest"
)

// CheckConfig runs `config check` of a program, a service's, on a configuration
// that was written for another machine, and returns what it prints.
func CheckConfig(t testing.TB, program, file string) ([]byte, error) {
	t.Helper()
	args := []string{"config", "check", "--config", file}
	if filepath.Base(program) == "registry" { // the relay checks no files
		args = append(args, "--skip-files")
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = []string{"MATRIX_PASSWORD=bot", "ADMIN_PASSWORD=administrator"}
	return cmd.CombinedOutput()
}

// Binary is the path of a service, "registry" or "relay": the one that SLIPWAY_E2E_REGISTRY or SLIPWAY_E2E_RELAY names, or else one
// built below bin/, where an unchanged one is left alone.
func Binary(t testing.TB, service string) string {
	t.Helper()
	if path := os.Getenv("SLIPWAY_E2E_" + strings.ToUpper(service)); path != "" {
		return path
	}
	return build(t, service, service)
}

// DevHomeserver builds the command that runs a homeserver for development and reads what arrives there.
func DevHomeserver(t testing.TB) string {
	t.Helper()
	return build(t, "relay", "devhomeserver")
}

func build(t testing.TB, service, command string) string {
	t.Helper()
	binaries.Lock()
	defer binaries.Unlock()
	if binaries.built[command] != "" {
		return binaries.built[command]
	}
	root := programtest.Root(t)
	dir := filepath.Join(root, "bin", "test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, command+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil { // other packages build too
		t.Fatal(err)
	}
	path := filepath.Join(dir, command)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-tags", "goolm", "-trimpath", "-o", path, fmt.Sprintf("slipway/%s/cmd/%s", service, command))
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", command, err, out)
	}
	binaries.built[command] = path
	return path
}

var binaries = struct {
	sync.Mutex
	built map[string]string
}{built: map[string]string{}}

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

// Wait waits up to two minutes until a condition holds; the test fails with what it
// says last.
func Wait(t testing.TB, holds func() error) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		err := holds()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// Ask does a request as each of prepare says, and returns the answer with its body
// read. A nil client is the default one.
func Ask(t testing.TB, client *http.Client, method, url string, body io.Reader, prepare ...func(*http.Request)) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range prepare {
		p(req)
	}
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// Header sets a header of a request.
func Header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// Read is a file's text.
func Read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Write writes a file that only its owner reads, and returns its path.
func Write(t testing.TB, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
