package harness

import (
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

// Front is a way to a registry: straight, or over TLS behind nginx.
type Front struct {
	Backend string // the registry's own address
	Addr    string // what clients are told
	ca      string // the certificate to trust, "" = no TLS
}

// Fronts serves a fresh root and gives both ways to it.
func Fronts(t *testing.T) map[string]Front {
	t.Helper()
	addr := StartRegistry(t, t.TempDir()).Addr
	return map[string]Front{"plain": {Backend: addr, Addr: addr}, "TLS": StartNginx(t, addr)}
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

// StartNginx ends TLS in front of a registry, as deployments do.
func StartNginx(t *testing.T, backend string) Front {
	t.Helper()
	cert, key := programtest.Certificate(t)
	return StartBalancer(t, cert, key, backend)
}

// StartBalancer ends TLS in front of replicas, which get requests by turns.
func StartBalancer(t *testing.T, cert, key string, backends ...string) Front {
	t.Helper()
	f := Front{Backend: backends[0], Addr: programtest.FreeAddr(t), ca: cert}
	dir := t.TempDir()
	servers := "server " + strings.Join(backends, "; server ") + ";"
	text := strings.NewReplacer("%ADDR%", f.Addr, "%CERT%", cert, "%KEY%", key, "%BACKENDS%", servers).Replace(nginxConfig)
	config := filepath.Join(dir, "nginx.conf")
	WriteFile(t, config, []byte(text))
	// nginx answers a plain request on a port with TLS, too: it is up.
	Start(t, f.Addr, exec.Command(programtest.Tool(t, "nginx"), "-p", dir, "-e", "stderr", "-c", config))
	return f
}

// CraneCommand returns a crane command that trusts only the front's certificate.
func (f Front) CraneCommand(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	if f.ca == "" {
		return exec.CommandContext(t.Context(), programtest.Tool(t, "crane"), append([]string{"--insecure"}, args...)...)
	}
	cmd := exec.CommandContext(t.Context(), programtest.Tool(t, "crane"), args...)
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+f.ca, "SSL_CERT_DIR="+filepath.Dir(f.ca))
	return cmd
}

// Crane runs crane, which must succeed.
func (f Front) Crane(t testing.TB, args ...string) {
	t.Helper()
	if out, err := f.CraneCommand(t, args...).CombinedOutput(); err != nil {
		t.Fatalf("crane %s: %v\n%s", strings.Join(args, " "), err, programtest.Tail(string(out)))
	}
}

// Roots returns the pool with the front's certificate.
func (f Front) Roots(t *testing.T) *x509.CertPool {
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
