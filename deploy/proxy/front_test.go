// Package proxy_test runs the examples of reverse proxies, with real proxies, in
// front of the built services.
package proxy_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/deploy/internal/harness"
	"slipway/shared/programtest"
)

const (
	registryName  = "registry.example.org"
	relayName     = "relay.example.org"
	adminPassword = "correct horse"
)

// front is a proxy with both services behind it.
type front struct {
	addr     string // where it takes TLS
	port     string
	registry string // addresses of the services themselves
	relay    string
	images   string // the registry's root directory
	dir      string // for the proxy, with its logs
	cert     string
	key      string
	roots    *x509.CertPool
}

// newFront starts the services; the caller starts the proxy.
func newFront(t *testing.T) *front {
	t.Helper()
	f := &front{addr: programtest.FreeAddr(t), registry: programtest.FreeAddr(t), relay: programtest.FreeAddr(t), images: t.TempDir(), dir: t.TempDir()}
	_, f.port, _ = net.SplitHostPort(f.addr)
	f.cert, f.key = programtest.Certificate(t, registryName, relayName)
	f.roots = x509.NewCertPool()
	f.roots.AppendCertsFromPEM([]byte(read(t, f.cert)))

	cmd := exec.Command(harness.Binary(t, "registry"), "serve")
	cmd.Env = []string{
		"REGISTRY_HTTP_ADDR=" + f.registry, "REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=" + f.images, "REGISTRY_LOG_LEVEL=warn", "REGISTRY_LOG_ACCESSLOG_DISABLED=true",
		"REGISTRY_AUTH_SERVICE=builtin", "REGISTRY_ACCESS_RULES=[{who: [anyone], repositories: [app, big], allow: [push]}]",
	}
	programtest.Start(t, cmd, "http://"+f.registry+"/v2/")

	cmd = exec.Command(harness.Binary(t, "relay"), "serve")
	cmd.Env = []string{
		"RELAY_HTTP_LISTENADDRESS=" + f.relay, "RELAY_HTTP_TRUSTEDPROXIES=[127.0.0.1]", "RELAY_DATABASE_CONNECTION=" + filepath.Join(t.TempDir(), "relay.db"),
		"RELAY_MATRIX_HOMESERVER=http://127.0.0.1:1", "RELAY_MATRIX_USERNAME=@relay:example.org", "RELAY_ADMIN_MATRIXID=@you:example.org",
		"MATRIX_PASSWORD=bot", "ADMIN_PASSWORD=" + adminPassword, "RELAY_LOGGING_LEVEL=error",
	}
	programtest.Start(t, cmd, "http://"+f.relay+"/readyz")
	return f
}

// client comes from a loopback address of its own and finds both names at the
// proxy.
func (f *front) client(from string, http2 bool) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", f.addr)
		},
		TLSClientConfig: &tls.Config{RootCAs: f.roots}, ForceAttemptHTTP2: http2,
	}}
}

func (f *front) url(name, path string) string { return "https://" + name + ":" + f.port + path }

// write writes a file into the proxy's directory and returns its path.
func (f *front) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(f.dir, name)
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// example is a file of this directory with places of a real machine replaced;
// each has to be in it.
func example(t *testing.T, file string, replacements ...string) string {
	t.Helper()
	text := read(t, file)
	for i := 0; i < len(replacements); i += 2 {
		if !strings.Contains(text, replacements[i]) {
			t.Fatalf("%s has no %q", file, replacements[i])
		}
		text = strings.ReplaceAll(text, replacements[i], replacements[i+1])
	}
	return text
}

// ask does a request and returns the answer, its body read.
func ask(t *testing.T, client *http.Client, method, url string, body io.Reader, prepare func(*http.Request)) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	must(t, err)
	if prepare != nil {
		prepare(req)
	}
	resp, err := client.Do(req)
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp, string(text)
}

// header sets one header of a request.
func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func want(t *testing.T, resp *http.Response, status int, body string) {
	t.Helper()
	if resp.StatusCode != status {
		t.Fatalf("%s %s: %s, want %d\n%.500s", resp.Request.Method, resp.Request.URL, resp.Status, status, body)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

// waitFor waits until the proxy answers over TLS.
func (f *front) waitFor(t *testing.T, p *programtest.Process) {
	t.Helper()
	client := f.client("127.0.0.1", false)
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		resp, err := client.Get(f.url(registryName, "/v2/"))
		if err == nil {
			resp.Body.Close()
			return
		}
	}
	t.Fatalf("the proxy never answered\n%s", p.Output())
}
