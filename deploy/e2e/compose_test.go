package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestStack starts what a user starts, unchanged: the images from the
// Dockerfiles, the services from docker-compose.yml.
func TestStack(t *testing.T) {
	e := startEngine(t)
	e.makeBases(t)
	s := &stack{engine: e, files: []string{"docker-compose.yml"}, env: []string{
		"GOPROXY=" + e.serveModules(t), "GOSUMDB=", "GOFLAGS=", "VERSION=" + testVersion, "COMMIT=" + testCommit, "DATE=" + testDate,
	}}
	s.compose(t, "config", "-q")
	s.compose(t, "up", "-d")

	for _, service := range []string{"registry", "relay"} {
		t.Run("image of the "+service, func(t *testing.T) { checkImage(t, e, service) })
	}
	t.Run("the registry's image", func(t *testing.T) { checkRegistryImage(t, e) })
	t.Run("for arm64", func(t *testing.T) { checkCross(t, e, s.env) })

	var you *person
	if !t.Run("first message", func(t *testing.T) {
		s.waitAnswer(t)
		e.push(t, "localhost:5000/hello:first")
		you = s.person(t)
		you.reads(t, "hello:first")
		s.waitHealthy(t, "registry", "relay", "synapse")
	}) {
		return
	}
	t.Run("secrets", func(t *testing.T) { checkSecrets(t, s) })
	t.Run("nothing unsigned", func(t *testing.T) { checkUnsigned(t, s) })
	t.Run("crashes", func(t *testing.T) { checkCrashes(t, s, you) })
	t.Run("down and up", func(t *testing.T) { checkDownAndUp(t, s, you) })
	t.Run("TLS", func(t *testing.T) { checkTLS(t, s, you) })
	t.Run("everything was said once", func(t *testing.T) {
		you.readsOnce(t, "hello:first", "hello:registry", "hello:relay", "hello:synapse", "hello:waiting", "hello:killed", "hello:again", "hello:tls")
	})
	t.Run("replicas", func(t *testing.T) { checkReplicas(t, s) })
	t.Run("what docs/docker.md says", func(t *testing.T) { checkPage(t, s) })
}

// person logs in with the password that setup shows.
func (s *stack) person(t *testing.T) *person {
	t.Helper()
	shown := s.compose(t, "run", "--rm", "--no-deps", "-T", "setup", "setup", "show", "--secrets=/secrets/relay")
	password := regexp.MustCompile(`log in as @you:localhost +password (\S+)`).FindStringSubmatch(shown)
	if password == nil {
		t.Fatalf("setup shows no password:\n%s", shown)
	}
	return login(t, s.engine, "http://127.0.0.1:8008", "you", password[1])
}

// Secrets are files of their owner, and nowhere else.
func checkSecrets(t *testing.T, s *stack) {
	said := s.compose(t, "logs", "--no-color") + s.compose(t, "config")
	for _, service := range []string{"registry", "relay", "synapse", "setup"} {
		said += s.engine.docker(t, "inspect", s.container(service))
	}
	secrets := s.secrets(t)
	if len(secrets) < 8 {
		t.Errorf("only these secrets were found: %q", sortedNames(secrets))
	}
	for name, content := range secrets {
		_, word, found := strings.Cut(content, "Bearer ")
		if !found {
			word = content
		}
		if len(word) < 16 {
			t.Errorf("%s holds %d bytes", name, len(word))
		}
		if strings.Contains(said, word) {
			t.Errorf("what %s holds is in a log or a container's settings", name)
		}
	}
}

// Who has the token and not what the registry signs with makes no message.
func checkUnsigned(t *testing.T, s *stack) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:8080/hook/registry", strings.NewReader(`{"events":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.secrets(t)["relay-secrets/relay_token"])
	resp, err := s.engine.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("an envelope that nobody signed is answered with %d", resp.StatusCode)
	}
}

// Whoever ends comes back, and what was pushed meanwhile is told.
func checkCrashes(t *testing.T, s *stack, you *person) {
	e := s.engine
	for _, service := range []string{"registry", "relay", "synapse"} {
		e.crash(t, s.container(service))
		s.waitRestarted(t, service, "1")
		s.waitAnswer(t)
		e.push(t, "localhost:5000/hello:"+service)
		you.reads(t, "hello:"+service)
		e.pull(t, "localhost:5000/hello:first")
	}
	// An event that the relay could not take survives the registry too.
	e.docker(t, "stop", s.container("relay"))
	e.push(t, "localhost:5000/hello:waiting")
	e.crash(t, s.container("registry"))
	s.waitRestarted(t, "registry", "2")
	e.docker(t, "start", s.container("relay"))
	you.reads(t, "hello:waiting")
	// `docker kill` is what somebody asked for, so it takes somebody to start again.
	e.push(t, "localhost:5000/hello:killed")
	e.docker(t, "kill", s.container("registry"), s.container("relay"), s.container("synapse"))
	s.compose(t, "up", "-d")
	s.waitAnswer(t)
	you.reads(t, "hello:killed")
	e.pull(t, "localhost:5000/hello:killed")
}

func (s *stack) waitRestarted(t *testing.T, service, times string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		state := s.state(t, service, "{{.RestartCount}} {{.State.Status}}")
		if state == times+" running" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s crashed and is %q", service, state)
		}
	}
}

// A stack that was taken down is the same when it is up again.
func checkDownAndUp(t *testing.T, s *stack, you *person) {
	before := s.secrets(t)
	s.compose(t, "down")
	s.compose(t, "up", "-d")
	if after := s.secrets(t); !maps.Equal(before, after) {
		t.Errorf("the secrets changed: there were %q, there are %q", sortedNames(before), sortedNames(after))
	}
	s.waitAnswer(t)
	s.engine.pull(t, "localhost:5000/hello:first")
	s.engine.push(t, "localhost:5000/hello:again")
	you.reads(t, "hello:again")
}

// docker-compose.tls.yml puts the stack behind HTTPS and a login.
func checkTLS(t *testing.T, s *stack, you *person) {
	e := s.engine
	over := &stack{engine: e, files: append(s.files, "docker-compose.tls.yml"), env: append([]string{
		"REGISTRY_DOMAIN=" + names[0], "RELAY_DOMAIN=" + names[1], "MATRIX_DOMAIN=" + names[2],
	}, s.env...)}
	if out, err := (&stack{engine: e, files: over.files, env: s.env}).try(t, "config"); err == nil || !strings.Contains(out, "such as relay.example.org") {
		t.Errorf("without names: %v\n%s", err, out)
	}
	over.compose(t, "config", "-q")
	over.input = password + "\n"
	over.compose(t, "run", "--rm", "--no-deps", "-T", "registry", "htpasswd", "--password-stdin", "/etc/docker/registry/auth/htpasswd", "alice")
	over.compose(t, "up", "-d")

	root := over.certificate(t)
	e.trust(t, names[0], root)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(root)
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: e.dial, TLSClientConfig: &tls.Config{RootCAs: pool}}}

	e.image(t, names[0]+"/hello:tls", "not yet")
	if out, err := e.run(t, command{name: "docker", args: []string{"push", names[0] + "/hello:tls"}}); err == nil {
		t.Errorf("a push without a login: %s", out)
	}
	e.docker(t, "login", "-u", "alice", "-p", password, names[0])
	e.push(t, names[0]+"/hello:tls")
	e.pull(t, names[0]+"/hello:tls")
	you.reads(t, "hello:tls")

	if status, location := startUpload(t, client); status != http.StatusAccepted || !strings.HasPrefix(location, "https://"+names[0]+"/v2/hello/blobs/uploads/") {
		t.Errorf("an upload starts with %d at %q", status, location)
	}
	for url, want := range map[string]int{
		"https://" + names[1] + "/health":                  http.StatusOK,
		"https://" + names[1] + "/metrics":                 http.StatusNotFound,
		"https://" + names[0] + "/debug/health":            http.StatusNotFound,
		"https://" + names[2] + "/_matrix/client/versions": http.StatusOK,
		"https://" + names[2] + "/_synapse/admin/v1/rooms": http.StatusNotFound,
		"https://" + names[0] + "/v2/":                     http.StatusUnauthorized,
	} {
		if status := get(t, client, url); status != want {
			t.Errorf("%s: %d, want %d", url, status, want)
		}
	}
}

const password = "correct horse"

// certificate is the CA that Caddy makes for names of this machine alone.
func (s *stack) certificate(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(s.volume("proxy-data"), "caddy", "pki", "authorities", "local", "root.crt")
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		ca, err := os.ReadFile(path)
		if err == nil && len(ca) > 0 {
			return ca
		}
		if time.Now().After(end) {
			t.Fatalf("%v\n%s", err, s.engine.docker(t, "logs", s.container("proxy")))
		}
	}
}

func startUpload(t *testing.T, client *http.Client) (status int, location string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+names[0]+"/v2/hello/blobs/uploads/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("alice", password)
	req.Header.Set("Forwarded", "host=elsewhere.example;proto=http")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("Location")
}

func get(t *testing.T, client *http.Client, url string) (status int) {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}
