package mirror

import (
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// forward is a forward proxy that knows where two hosts are.
type forward struct {
	*httptest.Server
	plain, tls string // addresses of a registry

	mu   sync.Mutex
	seen map[string]int
}

func (f *forward) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.seen[r.Method+" "+r.Host]++
	f.mu.Unlock()
	if r.Method != http.MethodConnect {
		next := httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: f.plain}) }}
		next.ServeHTTP(w, r)
		return
	}
	to, err := net.Dial("tcp", f.tls)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer to.Close()
	w.WriteHeader(http.StatusOK)
	from, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer from.Close()
	go func() {
		io.Copy(to, buffered)
		to.Close()
	}()
	io.Copy(from, to)
}

// A mirror reaches its upstreams through the proxies that the environment names, and trusts
// the CA that the configuration names.
func TestMirror_ThroughProxies(t *testing.T) {
	up := harness.StartRegistry(t, t.TempDir())
	img := harness.NewImage(t, 160, 2, 100_000)
	img.Push(t, up.Addr, "app", "v1")
	secure := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: up.Addr}))
	t.Cleanup(secure.Close)
	f := &forward{plain: up.Addr, tls: secure.Listener.Addr().String(), seen: map[string]int{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	harness.WriteFile(t, ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}))
	config, addr := filepath.Join(t.TempDir(), "config.yml"), programtest.FreeAddr(t)
	harness.WriteFile(t, config, []byte(strings.NewReplacer("%ADDR%", addr, "%ROOT%", t.TempDir(), "%CA%", ca).Replace(`version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: "%ROOT%"}}
http: {addr: "%ADDR%"}
proxy:
  upstreams:
  - {prefix: plain, remoteurl: "http://registry.invalid"}
  - {prefix: secure, remoteurl: "https://example.com", ca: "%CA%"}
  - {prefix: unknown, remoteurl: "https://example.com"}
`)))
	mirror := harness.Serve(t, addr, []string{"HTTP_PROXY=" + f.URL, "https_proxy=" + f.URL}, config)
	img.Pulls(t, mirror.Addr, "plain/app", "v1")
	img.Pulls(t, mirror.Addr, "secure/app", "v1")
	if resp, body := harness.Fetch(t, "GET", "http://"+mirror.Addr+"/v2/unknown/app/manifests/v1", harness.AcceptAll, nil); resp.StatusCode != http.StatusBadGateway {
		t.Errorf("a certificate that nothing vouches for: %s %s", resp.Status, body)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen["GET registry.invalid"] == 0 || f.seen["CONNECT example.com:443"] == 0 {
		t.Errorf("the proxy has seen %v", f.seen)
	}
}
