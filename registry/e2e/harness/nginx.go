package harness

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

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

// StartBalancer ends TLS in front of replicas, which get requests by turns. It returns nginx's address.
func StartBalancer(t *testing.T, cert, key string, backends ...string) string {
	t.Helper()
	addr := programtest.FreeAddr(t)
	startNginx(t, addr, addr+" ssl; ssl_certificate "+cert+"; ssl_certificate_key "+key, "", backends)
	return addr
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
