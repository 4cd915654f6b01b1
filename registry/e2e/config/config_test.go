package config

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// ownKeys holds what the example leaves off of the settings that distribution
// does not know, in the places where it passes over them.
const ownKeys = `
auth:
  htpasswd:
    realm: basic "realm"
    path: "%HTPASSWD%"
    anonymouspull: false
    cachettl: 1m
`

// TestExampleServesEverywhere starts us and distribution with the full example and variables over
// it: a volume can move between them with its configuration.
func TestExampleServesEverywhere(t *testing.T) {
	exampleServes(t, map[string]string{"slipway": harness.Binary, harness.Distribution2.Name: programtest.Tool(t, harness.Distribution2.Tool)})
}

func TestFull_ExampleServesEverywhere(t *testing.T) {
	exampleServes(t, map[string]string{harness.Distribution3.Name: programtest.Tool(t, harness.Distribution3.Tool)})
}

func exampleServes(t *testing.T, programs map[string]string) {
	t.Helper()
	example, err := os.ReadFile(filepath.Join(programtest.Root(t), "registry", "config.example.yml"))
	if err != nil {
		t.Fatal(err)
	}
	htpasswd := filepath.Join(t.TempDir(), "htpasswd")
	line := "user:$2y$05$/UgJgmtMvhSlbSnzyjEYUOIwv8o3wrEMrYUhkMm6tpkuTxqTTLnTq\n"
	if err := os.WriteFile(htpasswd, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	files := map[string]struct {
		text   string
		status int
	}{
		"example":           {string(example), http.StatusOK},
		"example with auth": {string(example) + strings.ReplaceAll(ownKeys, "%HTPASSWD%", htpasswd), http.StatusUnauthorized},
	}
	for name, file := range files {
		path := filepath.Join(t.TempDir(), "config.yml")
		if err := os.WriteFile(path, []byte(file.text), 0o600); err != nil {
			t.Fatal(err)
		}
		for program, command := range programs {
			t.Run(name+"/"+program, func(t *testing.T) {
				p := startConfigured(t, command, path)
				resp, _ := harness.Fetch(t, http.MethodGet, "http://"+p.Addr+"/v2/", nil, nil)
				if resp.StatusCode != file.status || resp.Header.Get("X-Content-Type-Options") != "nosniff" || resp.Header.Get("X-By-Variable") != "yes" {
					t.Errorf("got %d %v", resp.StatusCode, resp.Header)
				}
				if got := resp.Header.Get("WWW-Authenticate"); file.status == http.StatusUnauthorized && got != `Basic realm="basic \"realm\""` {
					t.Errorf("challenge %q", got)
				}
				harness.Eventually(t, "the configured field is in the log", func() bool { return strings.Contains(p.Output(), "service=registry") })
			})
		}
	}
}

// startConfigured runs a registry with a file and variables over it.
func startConfigured(t *testing.T, command, path string) *harness.Process {
	t.Helper()
	addr := programtest.FreeAddr(t)
	cmd := exec.Command(command, "serve", path)
	cmd.Env = []string{
		"OTEL_TRACES_EXPORTER=none",
		"REGISTRY_HTTP_ADDR=" + addr,
		"REGISTRY_HTTP_SECRET=s",
		"REGISTRY_HTTP_HEADERS_X-By-Variable=[yes]",
		"REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=" + t.TempDir(),
		"REGISTRY_STORAGE_DELETE_ENABLED=true",
		"REGISTRY_LOG_LEVEL=debug",
	}
	return harness.Start(t, addr, cmd)
}

// What keeps a configuration from starting is found by `config check`, all of it at
// once.
func TestConfigCheck_FindsWhatWouldNotStart(t *testing.T) {
	out, code := runRegistry(t, `version: 0.1
storage: {filesystem: {rootdirectory: /etc/passwd}}
auth: {htpasswd: {realm: r, path: /nowhere/htpasswd}}
http: {draintimeout: 5, addr: "127.0.0.1:5000", tls: {certificate: /nowhere/cert.pem, key: /nowhere/key.pem}}
`, nil, "config", "check")
	for _, want := range []string{
		"http.draintimeout: \"5\" is not a duration", "http.tls.certificate: /nowhere/cert.pem does not exist", "http.tls.key: /nowhere/key.pem does not exist",
		"auth.htpasswd.path: /nowhere/htpasswd does not exist; make it with: mkdir -p /nowhere && registry htpasswd /nowhere/htpasswd USER", "storage.filesystem.rootdirectory: /etc/passwd is not a directory",
	} {
		if code != 1 || strings.Count(out, want) != 1 {
			t.Errorf("with mistakes in values: %d, %s, want %q once", code, out, want)
		}
	}
	if out, code := runRegistry(t, "version: 0.1\nstorage: {inmemory: }\nauth: {htpasswd: {realm: r, path: /nowhere/htpasswd}}\n", nil, "config", "check", "--skip-files"); code != 0 {
		t.Errorf("--skip-files: %d, %s", code, out)
	}
	out, code = runRegistry(t, "version: 0.1\nstorage: {inmemory: }\nlog: {level: trace}\nhttp: {draintimeout: 5, addr: '127.0.0.1:1', debug: {addr: '127.0.0.1:1'}}\n", nil, "config", "check")
	for _, want := range []string{"log.level: \"trace\" is not", "http.draintimeout: \"5\" is not a duration", "http.addr and http.debug.addr are equal"} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("got %d, %s, want %q", code, out, want)
		}
	}
}

func TestConfigCommands(t *testing.T) {
	file := "version: 0.1\nloglevel: debug\nstorage: {inmemory: }\nhttp: {secret: hunter2}\n"
	env := []string{"REGISTRY_HTTP_ADDR=127.0.0.1:1", "REGISTRY_USER=x"}
	out, code := runRegistry(t, file, env, "config", "check")
	for _, want := range []string{"the configuration is valid", "REGISTRY_USER is not a setting and does nothing"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("got %d, %s, want %q", code, out, want)
		}
	}
	out, code = runRegistry(t, file, env, "config", "show")
	for _, want := range []string{"addr: 127.0.0.1:1 # REGISTRY_HTTP_ADDR\n", "secret: '***' # ", "config.yml:4\n", "net: tcp # default\n", "level: debug # "} {
		if code != 0 || !strings.Contains(out, want) || strings.Contains(out, "hunter2") {
			t.Errorf("got %d, %s, want %q", code, out, want)
		}
	}
}

// runRegistry runs a command that ends by itself, on a file if there is text
// for one.
func runRegistry(t *testing.T, file string, env []string, args ...string) (out string, code int) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "config.yml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	return harness.Run(t, env, args...)
}
