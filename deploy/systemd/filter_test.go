package systemd_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/deploy/internal/harness"
	"slipway/shared/programtest"
)

// No system call that a service makes at its work is one that its unit forbids.
func TestFilterLetsServicesWork(t *testing.T) {
	t.Run("registry", func(t *testing.T) {
		dir, addr := t.TempDir(), programtest.FreeAddr(t)
		env := []string{"REGISTRY_HTTP_ADDR=" + addr, "REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=" + filepath.Join(dir, "images"), "REGISTRY_STORAGE_DELETE_ENABLED=true"}
		p := programtest.Start(t, traced(t, "registry", dir, env, "serve"), "http://"+addr+"/v2/")
		var pushing sync.WaitGroup // several at a time share their flushes
		for i := range 16 {
			pushing.Go(func() {
				layer := fmt.Sprint("layer ", i)
				url := fmt.Sprintf("http://%s/v2/app/blobs/uploads/?digest=sha256:%x", addr, sha256.Sum256([]byte(layer)))
				if resp, err := http.Post(url, "application/octet-stream", strings.NewReader(layer)); err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusCreated {
					t.Errorf("push: %v, %v", resp, err)
				}
			})
		}
		pushing.Wait()
		blob := fmt.Sprintf("http://%s/v2/app/blobs/sha256:%x", addr, sha256.Sum256([]byte("layer 0")))
		want(t, http.StatusOK, http.MethodGet, blob, "")
		want(t, http.StatusAccepted, http.MethodDelete, blob, "")
		end(t, p, "registry", dir)

		collect := traced(t, "registry", dir, env, "garbage-collect")
		if out, err := collect.CombinedOutput(); err != nil {
			t.Fatalf("garbage-collect: %v\n%s", err, out)
		}
		allowed(t, "registry", dir)
	})
	t.Run("relay", func(t *testing.T) {
		dir, addr := t.TempDir(), programtest.FreeAddr(t)
		p := programtest.Start(t, traced(t, "relay", dir, []string{
			"RELAY_HTTP_LISTENADDRESS=" + addr, "RELAY_DATABASE_CONNECTION=" + filepath.Join(dir, "relay.db"), "RELAY_MATRIX_HOMESERVER=http://127.0.0.1:1",
			"RELAY_MATRIX_USERNAME=@relay:example.org", "RELAY_ADMIN_MATRIXID=@you:example.org", "MATRIX_PASSWORD=bot", "ADMIN_PASSWORD=correct horse",
		}, "serve"), "http://"+addr+"/livez")
		want(t, http.StatusCreated, http.MethodPost, "http://"+addr+"/application", `{"name": "backup"}`)
		end(t, p, "relay", dir)
	})
}

// traced is a service whose system calls go to a file in dir. It runs as nobody,
// as no unit runs as root: SQLite does more then.
func traced(t *testing.T, service, dir string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	for _, open := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(open, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	program := harness.Write(t, filepath.Join(dir, service), harness.Read(t, harness.Binary(t, service)))
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	all := []string{"-f", "-qq", "-o", filepath.Join(dir, "calls")}
	if os.Getuid() == 0 {
		all = append(all, "-u", "nobody")
	}
	cmd := exec.Command(programtest.Tool(t, "strace"), append(append(all, program), args...)...)
	cmd.Env = env
	return cmd
}

// end stops a service and looks at its calls. Strace passes on no signal.
func end(t *testing.T, p *programtest.Process, service, dir string) {
	t.Helper()
	if err := p.StopGroup(t, 20*time.Second); err != nil {
		t.Error(err)
	}
	allowed(t, service, dir)
}

func want(t *testing.T, status int, method, url, body string) {
	t.Helper()
	resp, answer := harness.Ask(t, nil, method, url, strings.NewReader(body), harness.Header("Content-Type", "application/json"), func(r *http.Request) {
		r.SetBasicAuth("admin", "correct horse")
	})
	if resp.StatusCode != status {
		t.Errorf("%s %s: %s %s, want %d", method, url, resp.Status, answer, status)
	}
}

var callName = regexp.MustCompile(`(?m)^\d+ +([a-z_0-9]+)\(`)

// allowed holds the calls of the trace against the unit's SystemCallFilter lines.
func allowed(t *testing.T, service, dir string) {
	t.Helper()
	filter := map[string]bool{}
	for _, line := range parse(harness.Read(t, service+".service"))["SystemCallFilter"] {
		names, denied := strings.CutPrefix(line, "~")
		for _, name := range strings.Fields(names) {
			for _, call := range members(t, name) {
				filter[call] = !denied
			}
		}
	}
	called := map[string]bool{}
	for _, match := range callName.FindAllStringSubmatch(harness.Read(t, filepath.Join(dir, "calls")), -1) {
		called[match[1]] = true
	}
	if !called["openat"] || !called["futex"] {
		t.Fatalf("the trace has only %v", called)
	}
	for call := range called {
		if !filter[call] {
			t.Errorf("%s calls %s, which its unit forbids", service, call)
		}
	}
}

// members are the calls of a set as systemd knows it, sets in it resolved.
func members(t *testing.T, name string) (all []string) {
	t.Helper()
	if !strings.HasPrefix(name, "@") {
		return []string{name}
	}
	for line := range strings.Lines(harness.Run(t, "systemd-analyze", "syscall-filter", "--no-pager", name)) {
		if entry := strings.TrimSpace(line); entry != name && entry != "" && !strings.HasPrefix(entry, "#") {
			all = append(all, members(t, entry)...)
		}
	}
	return all
}
