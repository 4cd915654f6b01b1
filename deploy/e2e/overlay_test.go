package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/shared/programtest"
	"slipway/tools/harness"
)

// change takes the stack down, and lays another override over it for what comes next.
func (s *stack) change(t *testing.T, override string) {
	t.Helper()
	s.compose(t, "", "down")
	s.override = override
}

// A stack that was taken down has its secrets and images when it is up again, and
// docker-compose.tls.yml puts it behind HTTPS and a login.
func checkTLS(t *testing.T, s *stack, youRead func(*testing.T, string) string) {
	const password = "correct horse"
	secrets := func() string {
		return harness.Run(t, "sh", "-c", `cat "$0"/slipway_*-secrets/_data/*`, s.volume(""))
	}
	before := secrets()
	s.change(t, "tls")
	s.compose(t, password+"\n", "run", "--rm", "--no-deps", "-T", "registry", "htpasswd", "--password-stdin", "/etc/distribution/auth/htpasswd", "alice")
	s.compose(t, "", "up", "-d")
	if secrets() != before {
		t.Error("the secrets changed")
	}
	var authority []byte // that Caddy makes for names of this machine alone
	harness.Wait(t, func() (err error) {
		authority, err = os.ReadFile(s.volume("proxy-data/_data/caddy/pki/authorities/local/root.crt"))
		return err
	})
	trusted, pool := filepath.Join("/etc/docker/certs.d", names[0]), x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	if err := os.MkdirAll(trusted, 0o755); err != nil {
		t.Fatal(err)
	}
	harness.Write(t, filepath.Join(trusted, "ca.crt"), string(authority))
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	waitAnswer(t, client, "https://"+names[0]+"/v2/")
	for url, want := range map[string]int{
		"https://" + names[1] + "/health":                  http.StatusOK,
		"https://" + names[1] + "/metrics":                 http.StatusNotFound,
		"https://" + names[0] + "/debug/health":            http.StatusNotFound,
		"https://" + names[2] + "/_matrix/client/versions": http.StatusOK,
		"https://" + names[2] + "/_synapse/admin/v1/rooms": http.StatusNotFound,
		"https://" + names[0] + "/v2/":                     http.StatusUnauthorized,
	} {
		if resp, _ := harness.Ask(t, client, http.MethodGet, url, nil); resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", url, resp.Status, want)
		}
	}
	s.docker(t, "login", "-u", "alice", "-p", password, names[0])
	s.push(t, names[0]+"/tls/hello:tls")
	s.docker(t, "rmi", "-f", "localhost:5000/hello:first")
	s.docker(t, "pull", names[0]+"/hello:first")
	youRead(t, "hello:tls")
	s.mail(t, "sent beside TLS")
	youRead(t, "sent beside TLS")
	resp, _ := harness.Ask(t, client, http.MethodPost, "https://alice:correct%20horse@"+names[0]+"/v2/hello/blobs/uploads/", nil, harness.Header("Forwarded", "host=elsewhere.example;proto=http"))
	if at := resp.Header.Get("Location"); !strings.HasPrefix(at, "https://"+names[0]+"/v2/hello/blobs/uploads/") {
		t.Errorf("an upload starts with %s at %q", resp.Status, at)
	}
}

// mail sends a mail to the relay, as a machine that can do nothing else.
func (s *stack) mail(t *testing.T, subject string) {
	t.Helper()
	token := strings.TrimSpace(harness.Read(t, s.volume("relay-secrets/_data/relay_token")))
	harness.Run(t, "swaks", "--server", "127.0.0.1:2525", "--from", "nas@example.org", "--to", "any@example.org",
		"--auth", "PLAIN", "--auth-user", "any", "--auth-password", token, "--header", "Subject: "+subject, "--body", "12 GB in 3 minutes")
}

// volume is the path of a volume of the stack, and of what is in it.
func (s *stack) volume(name string) string {
	if name != "" {
		name = "slipway_" + name
	}
	return filepath.Join(s.dir, "data", "volumes", name)
}

// docker-compose.replicas.yml serves from a bucket, with two registries of which one may be gone.
func checkReplicas(t *testing.T, s *stack, youRead func(*testing.T, string) string) {
	const image = "localhost:5080/hello:replicas"
	s.makeNginx(t, "replicas", "balancer")
	s.makeGateway(t)
	s.change(t, "replicas")
	s.compose(t, "", "up", "-d")
	waitAnswer(t, http.DefaultClient, "http://127.0.0.1:5080/v2/")
	s.push(t, image)
	youRead(t, "hello:replicas")
	if found := harness.Run(t, "find", s.volume("store-data"), "-path", "*/images/docker/registry/v2/repositories/hello/_manifests/tags/replicas*"); found == "" {
		t.Error("the bucket has no tag of what was pushed")
	}
	for _, gone := range []string{"slipway_registry_1", "slipway_registry-2_1"} {
		s.docker(t, "stop", gone)
		s.docker(t, "rmi", "-f", image)
		s.docker(t, "pull", image)
		s.docker(t, "start", gone)
		harness.Wait(t, func() error { return s.command("docker", "exec", gone, "registry", "health").Run() })
	}
	s.push(t, "localhost:5080/both/hello:both")
	youRead(t, "hello:both")
}

// makeNginx gives the engine a look-alike of nginx, under the name that a service of an override has for it.
func (e *engine) makeNginx(t *testing.T, override, service string) {
	t.Helper()
	root := programtest.Root(t)
	e.importImage(t, load(t, override, overrides[override]).Services[service].Image, `CMD ["nginx", "-e", "stderr", "-c", "/etc/nginx/nginx.conf", "-g", "daemon off;"]`,
		"--transform=s,^nginx.conf$,etc/nginx/nginx.conf,", "-C", filepath.Join(root, ".tools", "images", "bookworm"), ".",
		"-C", filepath.Join(root, "deploy", "e2e", "testdata"), "nginx.conf", "-C", "/", strings.TrimPrefix(programtest.Tool(t, "nginx"), "/"))
}

// makeGateway gives the engine a look-alike of versitygw.
func (e *engine) makeGateway(t *testing.T) {
	t.Helper()
	gateway, err := filepath.EvalSymlinks(programtest.Tool(t, "versitygw"))
	if err != nil {
		t.Fatal(err)
	}
	// The real image is Alpine, whose wget is busybox.
	e.importImage(t, load(t, "replicas", overrides["replicas"]).Services["store"].Image, `CMD ["versitygw"]`,
		"--transform=s,^"+filepath.Base(gateway)+"$,usr/local/bin/versitygw,", "--transform=s,^busybox$,usr/bin/wget,",
		"-C", filepath.Join(programtest.Root(t), ".tools", "images", "bookworm"), ".", "-C", filepath.Dir(gateway), filepath.Base(gateway), "-C", "/usr/bin", "busybox")
}
