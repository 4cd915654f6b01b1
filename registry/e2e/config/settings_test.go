package config

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// described is the file that operators are told to write.
const described = `version: 0.1
log:
  fields:
    service: registry
  level: info
storage:
  cache:
    blobdescriptor: inmemory
  filesystem:
    rootdirectory: %ROOT%
  delete:
    enabled: true
http:
  addr: %ADDR%
  headers:
    X-Content-Type-Options: [nosniff]
  debug:
    addr: %DEBUG%
    prometheus:
      enabled: true
      path: /metrics
health:
  storagedriver:
    enabled: true
    interval: 10s
    threshold: 3
auth:
  htpasswd:
    realm: basic "realm"
    path: %HTPASSWD%
`

// TestDescribedFile runs the described file and looks at what each row of it
// does.
func TestDescribedFile(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	htpasswd := filepath.Join(dir, "htpasswd")
	harness.WriteUser(t, htpasswd, "user", "hunter2")
	addr, debug := programtest.FreeAddr(t), programtest.FreeAddr(t)
	path := filepath.Join(dir, "config.yml")
	text := strings.NewReplacer("%ROOT%", root, "%ADDR%", addr, "%DEBUG%", debug, "%HTPASSWD%", htpasswd).Replace(described)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := harness.Start(t, addr, exec.Command(harness.Binary, "serve", path))

	resp, body := harness.Fetch(t, http.MethodGet, "http://"+addr+"/v2/", nil, nil)
	if resp.StatusCode != http.StatusUnauthorized || !strings.Contains(string(body), "authentication required") {
		t.Errorf("without login: %d %s", resp.StatusCode, body)
	}
	if got := resp.Header.Get("WWW-Authenticate"); got != `Basic realm="basic \"realm\""` {
		t.Errorf("challenge %q", got)
	}
	if got := resp.Header.Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("configured header: %q", got)
	}
	login := harness.BasicAuth("user", "hunter2")
	if resp, body := harness.Fetch(t, http.MethodGet, "http://"+addr+"/v2/", login, nil); resp.StatusCode != http.StatusOK || string(body) != "{}" {
		t.Errorf("with login: %d %s", resp.StatusCode, body)
	}
	upload, _ := harness.Fetch(t, http.MethodPost, "http://"+addr+"/v2/a/blobs/uploads/?digest="+harness.EmptyDigest, login, http.NoBody)
	if upload.StatusCode != http.StatusCreated {
		t.Errorf("push: %d", upload.StatusCode)
	}
	if _, err := os.Stat(filepath.Join(root, "docker/registry/v2/repositories/a/_layers")); err != nil {
		t.Error(err)
	}
	if resp, _ := harness.Fetch(t, http.MethodDelete, "http://"+addr+"/v2/a/blobs/"+harness.EmptyDigest, login, nil); resp.StatusCode != http.StatusAccepted {
		t.Errorf("delete: %d", resp.StatusCode)
	}
	for path, want := range map[string]string{"/debug/health": "{", "/metrics": "registry_"} {
		if resp, body := harness.Fetch(t, http.MethodGet, "http://"+debug+path, nil, nil); resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %s", path, resp.StatusCode, programtest.Tail(string(body)))
		}
	}
	if err := p.Stop(t); err != nil {
		t.Error(err)
	}
	if out := p.Output(); !strings.Contains(out, " service=registry ") || strings.Contains(out, "level=debug") || strings.Contains(out, "hunter2") {
		t.Errorf("log:\n%s", out)
	}
}

// TestDeletionIsOffByDefault: the row that most depends on its absence.
func TestDeletionIsOffByDefault(t *testing.T) {
	addr := programtest.FreeAddr(t)
	harness.Serve(t, addr, []string{"REGISTRY_STORAGE=inmemory", "REGISTRY_HTTP_ADDR=" + addr, "REGISTRY_PORT=tcp://10.0.0.1:5000"}) // as Kubernetes sets it
	if resp, _ := harness.Fetch(t, http.MethodDelete, "http://"+addr+"/v2/a/manifests/"+harness.EmptyDigest, nil, nil); resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("got %d", resp.StatusCode)
	}
}

// TestTLS: encryption by file and by variable, and HTTP/2 unless disabled.
func TestTLS(t *testing.T) {
	cert, key := programtest.Certificate(t)
	for _, disabled := range []string{"false", "true"} {
		addr := programtest.FreeAddr(t)
		harness.Serve(t, addr, []string{
			"REGISTRY_STORAGE=inmemory", "REGISTRY_HTTP_ADDR=" + addr,
			"REGISTRY_HTTP_TLS_CERTIFICATE=" + cert, "REGISTRY_HTTP_TLS_KEY=" + key, "REGISTRY_HTTP_HTTP2_DISABLED=" + disabled,
		})
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
		resp, err := client.Get("https://" + addr + "/v2/")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if want := map[string]int{"false": 2, "true": 1}[disabled]; resp.StatusCode != http.StatusOK || resp.ProtoMajor != want {
			t.Errorf("http2.disabled %s: %d, HTTP/%d", disabled, resp.StatusCode, resp.ProtoMajor)
		}
	}
}

// TestHealthBehindCertificates: a registry that lets nobody in without a
// certificate is alive; nobody may restart it for that.
func TestHealthBehindCertificates(t *testing.T) {
	cert, key := programtest.Certificate(t)
	addr := programtest.FreeAddr(t)
	env := []string{
		"REGISTRY_STORAGE=inmemory", "REGISTRY_HTTP_ADDR=" + addr,
		"REGISTRY_HTTP_TLS_CERTIFICATE=" + cert, "REGISTRY_HTTP_TLS_KEY=" + key, "REGISTRY_HTTP_TLS_CLIENTCAS=[" + cert + "]",
	}
	harness.Serve(t, addr, env)
	if out, code := harness.Run(t, env, "health"); code != 0 || !strings.Contains(out, "http.debug.addr") {
		t.Errorf("%d: %s", code, out)
	}
}

// TestUnixSocket: http.net decides what http.addr is.
func TestUnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "registry.sock")
	cmd := exec.Command(harness.Binary, "serve")
	cmd.Env = []string{"REGISTRY_STORAGE=inmemory", "REGISTRY_HTTP_NET=unix", "REGISTRY_HTTP_ADDR=" + socket, "REGISTRY_HTTP_PREFIX=/reg/"}
	programtest.Launch(t, cmd)
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	var resp *http.Response
	var err error
	harness.Eventually(t, "the registry answers on its socket", func() bool {
		resp, err = client.Get("http://registry/reg/v2/")
		return err == nil
	})
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("got %d", resp.StatusCode)
	}
}
