package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

// front is a way to a registry: straight, or over TLS behind nginx.
type front struct {
	backend string // the registry's own address
	addr    string // what clients are told
	ca      string // the certificate to trust, "" = no TLS
}

// fronts serves a fresh root and gives both ways to it.
func fronts(t *testing.T) map[string]front {
	t.Helper()
	addr := startSlipway(t, t.TempDir()).addr
	return map[string]front{"plain": {backend: addr, addr: addr}, "TLS": startNginx(t, addr)}
}

const nginxConfig = `daemon off; user root; pid nginx.pid; error_log stderr warn; worker_processes 1;
events {}
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  upstream registries { %BACKENDS% }
  server {
    listen %ADDR% ssl;
    ssl_certificate %CERT%;
    ssl_certificate_key %KEY%;
    client_max_body_size 0;
    location / {
      proxy_pass http://registries;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_request_buffering off;
      proxy_buffering off;
    }
  }
}
`

// startNginx ends TLS in front of a registry, as deployments do.
func startNginx(t *testing.T, backend string) front {
	t.Helper()
	cert, key := programtest.Certificate(t)
	return balance(t, cert, key, backend)
}

// balance ends TLS in front of replicas, which get requests by turns.
func balance(t *testing.T, cert, key string, backends ...string) front {
	t.Helper()
	f := front{backend: backends[0], addr: programtest.FreeAddr(t), ca: cert}
	dir := t.TempDir()
	servers := "server " + strings.Join(backends, "; server ") + ";"
	text := strings.NewReplacer("%ADDR%", f.addr, "%CERT%", cert, "%KEY%", key, "%BACKENDS%", servers).Replace(nginxConfig)
	config := filepath.Join(dir, "nginx.conf")
	writeFile(t, config, []byte(text))
	// nginx answers a plain request on a port with TLS, too: it is up.
	start(t, f.addr, exec.Command(programtest.Tool(t, "nginx"), "-p", dir, "-e", "stderr", "-c", config))
	return f
}

// craneCommand is crane, which trusts nobody but the front's certificate.
func (f front) craneCommand(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	if f.ca == "" {
		return exec.CommandContext(t.Context(), programtest.Tool(t, "crane"), append([]string{"--insecure"}, args...)...)
	}
	cmd := exec.CommandContext(t.Context(), programtest.Tool(t, "crane"), args...)
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+f.ca, "SSL_CERT_DIR="+filepath.Dir(f.ca))
	return cmd
}

func (f front) crane(t testing.TB, args ...string) {
	t.Helper()
	if out, err := f.craneCommand(t, args...).CombinedOutput(); err != nil {
		t.Fatalf("crane %s: %v\n%s", strings.Join(args, " "), err, programtest.Tail(string(out)))
	}
}

func (f front) roots(t *testing.T) *x509.CertPool {
	t.Helper()
	pem, err := os.ReadFile(f.ca)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		t.Fatal("no certificate in " + f.ca)
	}
	return pool
}

// Behind a reverse proxy that ends TLS the URLs that clients are sent to are the proxy's.
func TestNginx_Locations(t *testing.T) {
	f := startNginx(t, startSlipway(t, t.TempDir()).addr)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: f.roots(t)}}}
	for _, query := range []string{"", "?digest=" + emptyDigest} {
		resp, err := client.Post("https://"+f.addr+"/v2/where/blobs/uploads/"+query, "application/octet-stream", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if at := resp.Header.Get("Location"); !strings.HasPrefix(at, "https://"+f.addr+"/v2/where/blobs/") {
			t.Errorf("POST %s: %s, Location %q, want it at https://%s", query, resp.Status, at, f.addr)
		}
	}
}
