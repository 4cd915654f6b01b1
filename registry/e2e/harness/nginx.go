package harness

import (
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
    listen %LISTEN%;
    client_max_body_size 0;
    location / {
      proxy_pass http://registries;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_request_buffering off;
      proxy_buffering off;
      %MORE%
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
	addr := programtest.FreeAddr(t)
	startNginx(t, addr, addr+" ssl; ssl_certificate "+cert+"; ssl_certificate_key "+key, "", backends)
	return Front{Backend: backends[0], Addr: addr, ca: cert}
}

// StartPlainBalancer is StartBalancer without TLS, with more directives of nginx about the backends. It returns
// nginx's address.
func StartPlainBalancer(t *testing.T, more string, backends ...string) string {
	t.Helper()
	addr := programtest.FreeAddr(t)
	startNginx(t, addr, addr, more, backends)
	return addr
}

func startNginx(t *testing.T, addr, listen, more string, backends []string) {
	t.Helper()
	dir := t.TempDir()
	servers := "server " + strings.Join(backends, "; server ") + ";"
	config := filepath.Join(dir, "nginx.conf")
	WriteFile(t, config, []byte(strings.NewReplacer("%LISTEN%", listen, "%BACKENDS%", servers, "%MORE%", more).Replace(nginxConfig)))
	// nginx answers a plain request on a port with TLS, too: it is up.
	Start(t, addr, exec.Command(programtest.Tool(t, "nginx"), "-p", dir, "-e", "stderr", "-c", config))
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
