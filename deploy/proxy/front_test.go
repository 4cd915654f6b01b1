// Package proxy_test runs the examples of reverse proxies, with real proxies, in
// front of the built services.
package proxy_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"slipway/shared/programtest"
	"slipway/tools/harness"
)

const (
	registryName  = "registry.example.org"
	relayName     = "relay.example.org"
	adminPassword = "correct horse"
)

// front is a proxy with both services behind it.
type front struct {
	addr, port, plain string // where it takes TLS, and plain HTTP
	registry, relay   string // addresses of the services themselves
	images            string // the registry's root directory
	dir               string // for the proxy, with its logs
	cert, key         string
	roots             *x509.CertPool
}

// newFront starts the services; the caller starts the proxy.
func newFront(t *testing.T) *front {
	t.Helper()
	f := &front{
		addr: programtest.FreeAddr(t), plain: programtest.FreeAddr(t), registry: programtest.FreeAddr(t), relay: programtest.FreeAddr(t),
		images: t.TempDir(), dir: t.TempDir(), roots: x509.NewCertPool(),
	}
	_, f.port, _ = net.SplitHostPort(f.addr)
	f.cert, f.key = programtest.Certificate(t, registryName, relayName)
	f.roots.AppendCertsFromPEM([]byte(harness.Read(t, f.cert)))

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

// serve starts the proxy and checks what goes through it.
func (f *front) serve(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	programtest.Start(t, cmd, "http://"+f.addr) // plain HTTP is answered there, too
	t.Run("registry", func(t *testing.T) { checkRegistry(t, f) })
	t.Run("relay", func(t *testing.T) { checkRelay(t, f) })
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

// example is a file of this directory with places of a real machine replaced;
// each has to be in it.
func example(t *testing.T, file string, replacements ...string) string {
	t.Helper()
	text := harness.Read(t, file)
	for i := 0; i < len(replacements); i += 2 {
		if !strings.Contains(text, replacements[i]) {
			t.Fatalf("%s has no %q", file, replacements[i])
		}
		text = strings.ReplaceAll(text, replacements[i], replacements[i+1])
	}
	return text
}

// ask is [harness.Ask], for an answer that has to have the status.
func ask(t *testing.T, client *http.Client, status int, method, url string, body io.Reader, prepare ...func(*http.Request)) (*http.Response, string) {
	t.Helper()
	resp, text := harness.Ask(t, client, method, url, body, prepare...)
	if resp.StatusCode != status {
		t.Fatalf("%s %s: %s, want %d\n%.500s", method, url, resp.Status, status, text)
	}
	return resp, text
}

func TestCaddy(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	_, plain, _ := net.SplitHostPort(f.plain)
	here := ":" + f.port + " {\n\tbind 127.0.0.1\n\ttls " + f.cert + " " + f.key
	file := harness.Write(t, filepath.Join(f.dir, "Caddyfile"), "{\n\tadmin off\n\tauto_https disable_redirects\n\thttp_port "+plain+"\n\thttps_port "+f.port+"\n}\n"+example(
		t, "Caddyfile", registryName+" {", registryName+here, relayName+" {", relayName+here,
		"127.0.0.1:5000", f.registry, "127.0.0.1:8080", f.relay, "/var/log/caddy", f.dir,
	))
	cmd := exec.Command(programtest.Tool(t, "caddy"), "run", "--adapter", "caddyfile", "--config", file)
	cmd.Env = append(os.Environ(), "HOME="+f.dir, "XDG_DATA_HOME="+f.dir, "XDG_CONFIG_HOME="+f.dir)
	f.serve(t, cmd)
}

// nginxMain is Debian's nginx.conf around conf.d, for a directory of
// the test's own.
const nginxMain = `daemon off; user root; pid nginx.pid; error_log stderr warn; worker_processes 2;
events {}
http {
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  include slipway.conf;
}
`

func TestNginx(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	live := "/etc/letsencrypt/live/"
	harness.Write(t, filepath.Join(f.dir, "slipway.conf"), example(
		t, "nginx.conf",
		"listen 443 ", "listen "+f.addr+" ", "listen 80;", "listen "+f.plain+";", "\tlisten [::]:443 ssl http2;\n", "", "\tlisten [::]:80;\n", "",
		"127.0.0.1:5000", f.registry, "127.0.0.1:8080", f.relay, "/var/log/nginx", f.dir,
		live+registryName+"/fullchain.pem", f.cert, live+registryName+"/privkey.pem", f.key, live+relayName+"/fullchain.pem", f.cert, live+relayName+"/privkey.pem", f.key,
	))
	main := harness.Write(t, filepath.Join(f.dir, "nginx.conf"), nginxMain)
	f.serve(t, exec.Command(programtest.Tool(t, "nginx"), "-p", f.dir, "-e", "stderr", "-c", main))

	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, _ := harness.Ask(t, client, http.MethodGet, "http://"+f.plain+"/v2/", nil, func(r *http.Request) { r.Host = registryName })
	if at := resp.Header.Get("Location"); at != "https://"+registryName+"/v2/" {
		t.Errorf("plain HTTP: %s to %s", resp.Status, at)
	}
}

// The balancer of docker-compose.replicas.yml is trusted, so what it forwards must not be the client's.
func TestBalancer_OverwritesHosts(t *testing.T) {
	for _, header := range []string{"Host $http_host", "X-Forwarded-Host $http_host", "X-Forwarded-Proto $scheme", "X-Forwarded-For $remote_addr", `Forwarded ""`} {
		if !strings.Contains(harness.Read(t, "../compose/balancer.conf"), "proxy_set_header "+header+";") {
			t.Errorf("%s isn't set", header)
		}
	}
}

// There is no Traefik to run here: its files are YAML, and nothing cuts long uploads
// or downloads.
func TestTraefik(t *testing.T) {
	for file, want := range map[string]string{"traefik.yml": "readTimeout:0s writeTimeout:0s", "traefik-dynamic.yml": "http:map["} {
		var content map[string]any
		if err := yaml.Unmarshal([]byte(harness.Read(t, file)), &content); err != nil || !strings.Contains(fmt.Sprint(content), want) {
			t.Errorf("%s lacks %s: %v, %v", file, want, content, err)
		}
	}
}
