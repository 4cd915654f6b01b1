package proxy_test

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	"slipway/shared/programtest"
)

// nginxMain is what Debian's nginx.conf does around conf.d, for a directory of
// the test's own.
const nginxMain = `daemon off; user root; pid nginx.pid; error_log stderr warn; worker_processes 2;
events {}
http {
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  include slipway.conf;
}
`

func TestNginx(t *testing.T) {
	f := newFront(t)
	plain := programtest.FreeAddr(t)
	f.write(t, "slipway.conf", example(
		t, "nginx.conf",
		"listen 443 ", "listen "+f.addr+" ", "listen 80;", "listen "+plain+";", "\tlisten [::]:443 ssl http2;\n", "", "\tlisten [::]:80;\n", "",
		"127.0.0.1:5000", f.registry, "127.0.0.1:8080", f.relay, "/var/log/nginx", f.dir,
		"/etc/letsencrypt/live/"+registryName+"/fullchain.pem", f.cert, "/etc/letsencrypt/live/"+registryName+"/privkey.pem", f.key,
		"/etc/letsencrypt/live/"+relayName+"/fullchain.pem", f.cert, "/etc/letsencrypt/live/"+relayName+"/privkey.pem", f.key,
	))
	main := f.write(t, "nginx.conf", nginxMain)
	f.waitFor(t, programtest.Launch(t, exec.Command(programtest.Tool(t, "nginx"), "-p", f.dir, "-e", "stderr", "-c", main)))

	t.Run("registry", func(t *testing.T) { checkRegistry(t, f) })
	t.Run("relay", func(t *testing.T) { checkRelay(t, f) })
	t.Run("plain", func(t *testing.T) {
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		resp, _ := ask(t, client, http.MethodGet, "http://"+plain+"/v2/", nil, func(r *http.Request) { r.Host = registryName })
		if at := resp.Header.Get("Location"); at != "https://"+registryName+"/v2/" {
			t.Errorf("%s to %s", resp.Status, at)
		}
	})
	if log := read(t, filepath.Join(f.dir, "registry.log")); log == "" {
		t.Error("the registry has no log")
	}
}
