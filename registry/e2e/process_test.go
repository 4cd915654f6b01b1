package e2e

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/shared/programtest"
)

// process is a registry that a test started.
type process struct {
	*programtest.Process
	addr string // host:port
}

// start runs a server and waits until GET /v2/ on addr is answered.
func start(t testing.TB, addr string, cmd *exec.Cmd) *process {
	t.Helper()
	return &process{programtest.Start(t, cmd, "http://"+addr+"/v2/"), addr}
}

// stop ends the process as an operator does and returns its exit error.
func (p *process) stop(t testing.TB) error {
	t.Helper()
	return p.Stop(t, 20*time.Second)
}

// startSlipway serves root with the registry under test. The environment comes
// on top of a configuration that allows deletion.
func startSlipway(t testing.TB, root string, env ...string) *process {
	t.Helper()
	addr := programtest.FreeAddr(t)
	return start(t, addr, slipwayCommand(addr, root, env...))
}

func slipwayCommand(addr, root string, env ...string) *exec.Cmd {
	cmd := exec.Command(binary, "serve")
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"),
		"REGISTRY_HTTP_ADDR=" + addr,
		"REGISTRY_HTTP_SECRET=shared-by-all-replicas",
		"REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=" + root,
		"REGISTRY_STORAGE_DELETE_ENABLED=true",
		"REGISTRY_LOG_LEVEL=warn",
		"REGISTRY_LOG_ACCESSLOG_DISABLED=true",
	}, env...)
	return cmd
}

const peerConfig = `version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage:
  filesystem: {rootdirectory: "%ROOT%"}
  delete: {enabled: true}
http: {addr: "%ADDR%", secret: shared-by-all-replicas}
`

// peers are the two lines of CNCF distribution: command name → what it is.
var peers = []struct{ name, tool string }{
	{"distribution 2.8", "docker-registry"},
	{"distribution 3.1", "distribution3"},
}

// startPeer serves root with a distribution.
func startPeer(t testing.TB, command, root string) *process {
	t.Helper()
	addr := programtest.FreeAddr(t)
	cmd := exec.Command(programtest.Tool(t, command), "serve", writePeerConfig(t, addr, root))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "OTEL_TRACES_EXPORTER=none"}
	return start(t, addr, cmd)
}

func writePeerConfig(t testing.TB, addr, root string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yml")
	text := strings.NewReplacer("%ROOT%", root, "%ADDR%", addr).Replace(peerConfig)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// runTool runs a client to its end and fails the test if it fails.
func runTool(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := tryTool(t, nil, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, programtest.Tail(out))
	}
	return out
}

func tryTool(t testing.TB, env []string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, programtest.Tool(t, name), args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// fetch does one request and returns status, headers and body.
func fetch(t testing.TB, method, url string, header http.Header, body io.Reader) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, b
}

// errorOutput is what a command that failed wrote to its standard error.
func errorOutput(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return programtest.Tail(string(exit.Stderr))
	}
	return ""
}
