package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a server that a test started and ends.
type process struct {
	cmd  *exec.Cmd
	addr string // host:port
	out  *lockedBuffer
	done chan struct{}
	err  error // of Wait, after done
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start runs a server and waits until GET /v2/ on addr is answered.
func start(t testing.TB, addr string, cmd *exec.Cmd) *process {
	t.Helper()
	p := launch(t, addr, cmd)
	if err := p.waitReady(20 * time.Second); err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(cmd.Path), err, p.out)
	}
	return p
}

// launch runs a server without waiting for it.
func launch(t testing.TB, addr string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, addr: addr, out: new(lockedBuffer), done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.out, p.out
	// A group of its own, so that a server under strace goes with its tracer.
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setpgid = true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() && p.out.String() != "" {
			t.Logf("output of %s:\n%s", filepath.Base(cmd.Path), tail(p.out.String(), 4000))
		}
	})
	return p
}

func (p *process) waitReady(limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		select {
		case <-p.done:
			return errors.New("it ended before it answered")
		default:
		}
		resp, err := http.Get("http://" + p.addr + "/v2/")
		if err == nil {
			resp.Body.Close()
			return nil
		}
		if time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// kill ends the process at once, as kill -9 does.
func (p *process) kill() {
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// stop ends the process as an operator does and returns its exit error.
func (p *process) stop(t testing.TB) error {
	t.Helper()
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return p.err
	case <-time.After(20 * time.Second):
		p.kill()
		t.Fatal("it did not stop within 20 s of SIGTERM")
		return nil
	}
}

// freeAddr is a loopback address that nobody listens on.
func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startSlipway serves root with the registry under test. The environment comes
// on top of a configuration that allows deletion.
func startSlipway(t testing.TB, root string, env ...string) *process {
	t.Helper()
	addr := freeAddr(t)
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
	addr := freeAddr(t)
	cmd := exec.Command(tool(t, command), "serve", writePeerConfig(t, addr, root))
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
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, tail(out, 3000))
	}
	return out
}

func tryTool(t testing.TB, env []string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool(t, name), args...)
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

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// errorOutput is what a command that failed wrote to its standard error.
func errorOutput(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return tail(string(exit.Stderr), 3000)
	}
	return ""
}
