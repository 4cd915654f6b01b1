package config

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// nobody is the user that the image runs as.
const nobody = 65532

// TestStartSentences: what keeps the registry from starting is one sentence, with
// the setting, the path and what to do. It runs as the user of the image, on what
// root has left there.
func TestStartSentences(t *testing.T) {
	dir := public(t)
	program := filepath.Join(dir, "registry")
	harness.CopyFile(t, harness.Binary, program)
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().String()
	secret := filepath.Join(dir, "secret") // of root
	harness.WriteFile(t, secret, []byte("version: 0.1\nstorage: inmemory\n"))
	if err := os.Chmod(secret, 0o600); err != nil {
		t.Fatal(err)
	}
	volume, mixed, closed := filepath.Join(dir, "volume"), filepath.Join(dir, "mixed"), filepath.Join(dir, "closed")
	serveOnceAsRoot(t, volume)
	serveOnceAsRoot(t, mixed)
	for _, path := range []string{mixed, mixed + "/.staging", mixed + "/.locks", mixed + "/docker"} {
		if err := os.Chown(path, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(closed, 0o755); err != nil {
		t.Fatal(err)
	}

	const memory = "REGISTRY_STORAGE=inmemory"
	chown := ": chown 65532:65532 " + secret
	tests := []struct {
		name string
		env  []string
		args []string
		want []string
	}{
		{"port in use", []string{memory, "REGISTRY_HTTP_ADDR=" + taken}, nil, []string{"http.addr: " + taken + " is in use by another program: stop that one, or choose another address"}},
		{"debug port in use", []string{memory, "REGISTRY_HTTP_DEBUG_ADDR=" + taken}, nil, []string{"http.debug.addr: " + taken + " is in use"}},
		{"address of nobody", []string{memory, "REGISTRY_HTTP_ADDR=192.0.2.1:5000"}, nil, []string{"http.addr: 192.0.2.1:5000 is not an address of this machine"}},
		{"missing configuration", nil, []string{"/nowhere/config.yml"}, []string{"the configuration file cannot be read: /nowhere/config.yml does not exist: make or mount it"}},
		{"configuration of root", nil, []string{secret}, []string{"the configuration file cannot be read: " + secret + " belongs to uid 0 (mode 0600), and this runs as uid 65532", chown}},
		{"missing secret", []string{memory, "REGISTRY_HTTP_SECRET_FILE=/run/secrets/none"}, nil, []string{"http.secret_file: cannot be read: /run/secrets/none does not exist: make or mount it"}},
		{"secret of root", []string{memory, "REGISTRY_HTTP_SECRET_FILE=" + secret}, nil, []string{"http.secret_file: cannot be read: " + secret, chown}},
		{"missing certificate", []string{memory, "REGISTRY_HTTP_TLS_CERTIFICATE=/nowhere.crt", "REGISTRY_HTTP_TLS_KEY=" + secret}, nil, []string{"http.tls.certificate: /nowhere.crt does not exist: make or mount it", "http.tls.key: " + secret + " belongs to uid 0", chown}},
		{"missing passwords", []string{memory, "REGISTRY_AUTH_HTPASSWD_REALM=r", "REGISTRY_AUTH_HTPASSWD_PATH=/nowhere/htpasswd"}, nil, []string{"/nowhere/htpasswd does not exist; make it with: mkdir -p /nowhere && registry htpasswd /nowhere/htpasswd USER"}},
		{"passwords of root", []string{memory, "REGISTRY_AUTH_HTPASSWD_REALM=r", "REGISTRY_AUTH_HTPASSWD_PATH=" + secret}, nil, []string{"auth.htpasswd.path: " + secret + " belongs to uid 0", chown}},
		{"directory of passwords", []string{memory, "REGISTRY_AUTH_HTPASSWD_REALM=r", "REGISTRY_AUTH_HTPASSWD_PATH=" + closed}, nil, []string{"auth.htpasswd.path: " + closed + " is a directory, not a file: name a file in it, or mount one there"}},
		{"volume of root", []string{"REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=" + volume}, nil, []string{
			"storage.filesystem.rootdirectory: " + volume + " belongs to uid 0, and the registry runs as uid 65532, which may not write there: chown -R 65532:65532 " + volume,
			"or set storage.maintenance.readonly.enabled",
		}},
		{"volume partly of root", []string{"REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=" + mixed}, nil, []string{mixed + "/docker/registry belongs to uid 0", ": chown -R 65532:65532 " + mixed}},
		{"no volume", []string{"REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=" + closed + "/a/b"}, nil, []string{closed + "/a/b does not exist", "cannot make it in " + closed, "mkdir -p " + closed + "/a/b && chown 65532:65532 " + closed + "/a/b, or mount a volume there"}},
		{"queue of root", []string{memory, "REGISTRY_NOTIFICATIONS_QUEUE_DIRECTORY=" + closed + "/queue", `REGISTRY_NOTIFICATIONS_ENDPOINTS=[{name: a, url: "http://127.0.0.1:1"}]`}, nil, []string{
			"notifications.queue.directory: uid 65532", "mkdir -p " + closed + "/queue && chown -R 65532:65532 " + closed + "/queue",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, code := runAs(t, program, append(tt.env, "REGISTRY_LOG_LEVEL=error"), append([]string{"serve"}, tt.args...)...)
			if code != 1 || strings.Contains(out, "goroutine") {
				t.Errorf("code %d, %s", code, out)
			}
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("got  %s\nwant %s", out, want)
				}
			}
		})
	}
	t.Run("read-only volume of root", func(t *testing.T) { servesAs(t, program, volume, "REGISTRY_STORAGE_MAINTENANCE_READONLY_ENABLED=true") })
	if out, err := exec.Command("chown", "-R", "65532:65532", volume, mixed).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	for _, root := range []string{volume, mixed} {
		t.Run("what the sentence said", func(t *testing.T) { servesAs(t, program, root) })
	}
}

// Where the user of a command may not read a repository, it says so once and fails, and
// takes nothing that is unknown for nothing.
func TestCommandsThatMayNotReadEverything(t *testing.T) {
	dir := public(t)
	program, volume := filepath.Join(dir, "registry"), filepath.Join(dir, "volume")
	harness.CopyFile(t, harness.Binary, program)
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	serveOnceAsRoot(t, volume)
	if out, err := exec.Command("chmod", "-R", "a+rX", volume).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	if err := os.Chmod(filepath.Join(volume, "docker/registry/v2/repositories/app"), 0o700); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string][]string{
		"usage":        {"not counted: app: permission denied on the storage\n", "shared and unreferenced bytes are unknown\n", "registry: 1 repository cannot be read"},
		"uploads list": {"app: skipped: permission denied on the storage\n", "the rest is unknown\n", "registry: 1 repository cannot be read"},
	} {
		out, code := runAs(t, program, []string{"REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=" + volume}, strings.Fields(command)...)
		if code != 1 || strings.Contains(out, "in no repository") || strings.Count(out, "denied") != 1 || strings.Contains(out, "level=") {
			t.Errorf("%s: code %d, %s", command, code, out)
		}
		for _, text := range want {
			if !strings.Contains(out, text) {
				t.Errorf("%s: got %s, want %s", command, out, text)
			}
		}
	}
}

// public is a directory that everybody may enter.
func public(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "registry-public")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func serveOnceAsRoot(t *testing.T, root string) {
	t.Helper()
	p := harness.StartRegistry(t, root)
	harness.NewImage(t, 41, 1, 1000).Push(t, p.Addr, "app", "v1")
	if err := p.Stop(t); err != nil {
		t.Fatal(err)
	}
}

func asNobody(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd
}

func runAs(t *testing.T, program string, env []string, args ...string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := asNobody(exec.CommandContext(ctx, program, args...))
	cmd.Env = append([]string{"REGISTRY_HTTP_ADDR=127.0.0.1:0"}, env...)
	text, _ := cmd.CombinedOutput()
	return string(text), cmd.ProcessState.ExitCode()
}

// servesAs says that the registry serves the image that is in root.
func servesAs(t *testing.T, program, root string, env ...string) {
	t.Helper()
	addr := programtest.FreeAddr(t)
	cmd := asNobody(exec.Command(program, "serve"))
	cmd.Env = append(harness.RegistryCommand(addr, root).Env, env...)
	harness.NewImage(t, 41, 1, 1000).Pulls(t, harness.Start(t, addr, cmd).Addr, "app", "v1")
}
