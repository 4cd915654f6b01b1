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
		tr, addr := newTraced(t, "registry"), programtest.FreeAddr(t)
		tr.env = []string{"REGISTRY_HTTP_ADDR=" + addr, "REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=" + filepath.Join(tr.dir, "images"), "REGISTRY_STORAGE_DELETE_ENABLED=true"}
		p := programtest.Start(t, tr.command(t, "serve"), "http://"+addr+"/v2/")
		var pushing sync.WaitGroup // several at a time share their flushes
		for i := range 16 {
			pushing.Go(func() {
				layer := fmt.Sprint("layer ", i)
				want(t, http.StatusCreated, http.MethodPost, "http://"+addr+"/v2/app/blobs/uploads/?digest="+digestOf(layer), layer)
			})
		}
		pushing.Wait()
		digest := digestOf("layer 0")
		want(t, http.StatusOK, http.MethodGet, "http://"+addr+"/v2/app/blobs/"+digest, "")
		want(t, http.StatusAccepted, http.MethodDelete, "http://"+addr+"/v2/app/blobs/"+digest, "")
		end(t, p)
		tr.allowed(t)

		collect := tr.command(t, "garbage-collect")
		if out, err := collect.CombinedOutput(); err != nil {
			t.Fatalf("garbage-collect: %v\n%s", err, out)
		}
		tr.allowed(t)
	})
	t.Run("relay", func(t *testing.T) {
		tr, addr := newTraced(t, "relay"), programtest.FreeAddr(t)
		tr.env = []string{
			"RELAY_HTTP_LISTENADDRESS=" + addr, "RELAY_DATABASE_CONNECTION=" + filepath.Join(tr.dir, "relay.db"), "RELAY_MATRIX_HOMESERVER=http://127.0.0.1:1",
			"RELAY_MATRIX_USERNAME=@relay:example.org", "RELAY_ADMIN_MATRIXID=@you:example.org", "MATRIX_PASSWORD=bot", "ADMIN_PASSWORD=correct horse",
		}
		p := programtest.Start(t, tr.command(t, "serve"), "http://"+addr+"/livez")
		want(t, http.StatusCreated, http.MethodPost, "http://"+addr+"/application", `{"name": "backup"}`)
		end(t, p)
		tr.allowed(t)
	})
}

// traced is a service whose system calls are written down. It runs as nobody,
// as no unit runs as root: SQLite does more then.
type traced struct {
	service string
	dir     string // that nobody may write to
	env     []string
}

func newTraced(t *testing.T, service string) *traced {
	t.Helper()
	tr := &traced{service: service, dir: t.TempDir()}
	for _, dir := range []string{filepath.Dir(tr.dir), tr.dir} {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	binary, err := os.ReadFile(harness.Binary(t, service))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tr.dir, service), binary, 0o755); err != nil {
		t.Fatal(err)
	}
	return tr
}

func (tr *traced) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	all := []string{"-f", "-qq", "-o", filepath.Join(tr.dir, "calls")}
	if os.Getuid() == 0 {
		all = append(all, "-u", "nobody")
	}
	cmd := exec.Command(programtest.Tool(t, "strace"), append(append(all, filepath.Join(tr.dir, tr.service)), args...)...)
	cmd.Env = tr.env
	return cmd
}

// end stops a service that strace runs: strace passes on no signal.
func end(t *testing.T, p *programtest.Process) {
	t.Helper()
	if err := p.StopGroup(t, 20*time.Second); err != nil {
		t.Error(err)
	}
}

func digestOf(content string) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(content)))
}

func want(t *testing.T, status int, method, url, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.SetBasicAuth("admin", "correct horse")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return
	}
	resp.Body.Close()
	if resp.StatusCode != status {
		t.Errorf("%s %s: %s, want %d", method, url, resp.Status, status)
	}
}

var callName = regexp.MustCompile(`(?m)^\d+ +([a-z_0-9]+)\(`)

// allowed holds the calls of the trace against the unit's SystemCallFilter lines.
func (tr *traced) allowed(t *testing.T) {
	t.Helper()
	filter := map[string]bool{}
	for _, line := range parse(read(t, tr.service+".service"))["SystemCallFilter"] {
		names, denied := strings.CutPrefix(line, "~")
		for _, name := range strings.Fields(names) {
			for call := range members(t, name) {
				filter[call] = !denied
			}
		}
	}
	called := map[string]bool{}
	for _, match := range callName.FindAllStringSubmatch(read(t, filepath.Join(tr.dir, "calls")), -1) {
		called[match[1]] = true
	}
	if !called["openat"] || !called["futex"] {
		t.Fatalf("the trace has only %v", called)
	}
	for call := range called {
		if !filter[call] {
			t.Errorf("%s calls %s, which its unit forbids", tr.service, call)
		}
	}
}

// members are the calls of a set as systemd knows it, sets in it resolved.
func members(t *testing.T, name string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	if !strings.HasPrefix(name, "@") {
		all[name] = true
		return all
	}
	for line := range strings.Lines(harness.Run(t, "systemd-analyze", "syscall-filter", "--no-pager", name)) {
		entry := strings.TrimSpace(line)
		if entry == name || entry == "" || strings.HasPrefix(entry, "#") {
			continue
		}
		for call := range members(t, entry) {
			all[call] = true
		}
	}
	return all
}
