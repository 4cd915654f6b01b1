// Package e2e proves the whole stack: the images as they are built, and
// docker-compose.yml as it is started, in a docker engine of the tests' own that
// reaches nothing outside of this machine.
package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway/deploy/internal/harness"
	"slipway/shared/programtest"
)

// names that the ports of docker-compose.tls.yml are reached by.
var names = []string{"registry.localhost", "relay.localhost", "matrix.localhost"}

// stack is docker-compose.yml in an engine, with or without an override.
type stack struct {
	*engine
	override string
	env      []string
}

// compose runs docker-compose to its end; when it fails the test tells what the
// containers said.
func (s *stack) compose(t *testing.T, input string, args ...string) string {
	t.Helper()
	run := func(args ...string) (string, error) {
		all := []string{"--no-ansi", "-p", "slipway"}
		for _, f := range files(s.override) {
			all = append(all, "-f", f)
		}
		cmd := s.command("docker-compose", append(all, args...)...)
		cmd.Env = append(append(cmd.Env, s.env...), overrides[s.override]...)
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	start := time.Now()
	out, err := run(args...)
	t.Logf("%.1fs docker-compose %s", time.Since(start).Seconds(), args)
	if err != nil {
		said, _ := run("logs", "--no-color", "--tail", "30")
		t.Fatalf("docker-compose %s: %v\n%s\n%s", strings.Join(args, " "), err, programtest.Tail(out), programtest.Tail(said))
	}
	return out
}

// inspect is one of a container's, by docker's template.
func (s *stack) inspect(t *testing.T, service, template string) string {
	t.Helper()
	return s.docker(t, "inspect", "-f", template, "slipway_"+service+"_1")
}

// crash ends the first process of a container as the kernel does when memory is
// short, and waits until the engine has started it again.
func (s *stack) crash(t *testing.T, service string) {
	t.Helper()
	before, pid := s.inspect(t, service, "{{.RestartCount}}"), s.inspect(t, service, "{{.State.Pid}}")
	process, err := strconv.Atoi(pid)
	if err != nil || process < 2 {
		t.Fatalf("%s has the process %q", service, pid)
	}
	if err := syscall.Kill(process, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if state := s.inspect(t, service, "{{.RestartCount}} {{.State.Status}}"); strings.HasPrefix(state, before) || !strings.HasSuffix(state, " running") {
			return fmt.Errorf("%s crashed and is %q", service, state)
		}
		return nil
	})
}

// waitAnswer waits until the registry answers.
func waitAnswer(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		resp, err := http.Get("http://127.0.0.1:5000/v2/")
		if err == nil {
			resp.Body.Close()
		}
		return err
	})
}

// person is somebody with a Matrix account who reads the room.
type person struct{ program, password, device string }

// person takes the account that setup shows, with a device that reads encrypted
// messages from now on.
func (s *stack) person(t *testing.T) person {
	t.Helper()
	shown := s.compose(t, "", "run", "--rm", "--no-deps", "-T", "setup", "setup", "show", "--secrets=/secrets/relay")
	password := regexp.MustCompile(`log in as @you:localhost +password (\S+)`).FindStringSubmatch(shown)
	if password == nil {
		t.Fatalf("setup shows no password:\n%s", shown)
	}
	dir := t.TempDir()
	p := person{filepath.Join(dir, "devhomeserver"), harness.Write(t, filepath.Join(dir, "password"), password[1]), filepath.Join(dir, "device")}
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "goolm", "-o", p.program, "slipway/relay/cmd/devhomeserver")
	build.Dir = programtest.Root(t)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p.reads(t, "")
	return p
}

// reads waits for a message with the text and returns all messages.
func (p person) reads(t *testing.T, text string) (all string) {
	t.Helper()
	eventually(t, func() error {
		out, err := exec.CommandContext(t.Context(), p.program, "messages", "--user", "you", "--password-file", p.password, "--device", p.device).CombinedOutput()
		all = string(out)
		if err != nil || !strings.Contains(all, text) {
			return fmt.Errorf("no message about %s in the room: %w\n%s", text, err, out)
		}
		return nil
	})
	return all
}

// TestStack starts what a user starts, unchanged: the images from the Dockerfiles,
// the services from docker-compose.yml.
func TestStack(t *testing.T) {
	dir := os.Getenv(engineVariable)
	if dir == "" {
		prepare(t)
		inNamespaces(t) // without a network
		return
	}
	e := startEngine(t, dir)
	e.makeBases(t)
	s := &stack{engine: e, env: []string{"GOPROXY=" + serveModules(t), "GOSUMDB=", "GOFLAGS=", "VERSION=" + testVersion, "COMMIT=" + testCommit, "DATE=2026-01-02T03:04:05Z"}}
	s.compose(t, "", "up", "-d")
	for _, service := range services {
		t.Run("image of the "+service, func(t *testing.T) { checkImage(t, e, service) })
	}
	t.Run("configurations of the registry's image", func(t *testing.T) { checkRegistryImage(t, e) })

	waitAnswer(t)
	you := s.person(t)
	e.push(t, "localhost:5000/hello:first")
	you.reads(t, "hello:first")
	for _, service := range []string{"registry", "relay", "synapse"} { // by their own checks
		eventually(t, func() error {
			if health := s.inspect(t, service, "{{.State.Health.Status}}"); health != "healthy" {
				return fmt.Errorf("%s is %s", service, health)
			}
			return nil
		})
	}
	t.Run("secrets", func(t *testing.T) { checkSecrets(t, s) })
	// Whoever ends comes back, and an event that the relay could not take survives
	// the registry.
	s.crash(t, "relay")
	e.docker(t, "stop", "slipway_relay_1")
	e.push(t, "localhost:5000/hello:waiting")
	s.crash(t, "registry")
	e.docker(t, "start", "slipway_relay_1")
	you.reads(t, "hello:waiting")
	t.Run("down and up with TLS", func(t *testing.T) { checkTLS(t, s, you) })
	all := you.reads(t, "hello:tls")
	for _, text := range []string{"hello:first", "hello:waiting", "hello:tls"} {
		if n := strings.Count(all, text); n != 1 {
			t.Errorf("%d messages about %s:\n%s", n, text, all)
		}
	}
}

// secrets are the files that were made to be kept from others, by their names.
// Each must be its owner's alone.
func (s *stack) secrets(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for volume, pattern := range map[string]string{"relay-secrets": "*", "registry-secrets": "*", "synapse-data": "{registration.secret,signing.key}"} {
		root := filepath.Join(s.dir, "data", "volumes", "slipway_"+volume, "_data")
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || pattern != "*" && !strings.Contains(pattern, d.Name()) {
				return err
			}
			info, err := d.Info()
			if err == nil && (info.Mode().Perm() != 0o600 || info.Sys().(*syscall.Stat_t).Uid != 65532) {
				t.Errorf("%s is not 65532's alone: %s", path, info.Mode())
			}
			found[volume+"/"+d.Name()] = strings.TrimSpace(harness.Read(t, path))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// Secrets are in files of their owner and nowhere else, and who has the token but
// not the secret that the registry signs with makes no message.
func checkSecrets(t *testing.T, s *stack) {
	said := s.compose(t, "", "logs", "--no-color") + s.compose(t, "", "config")
	for _, service := range []string{"registry", "relay", "synapse", "setup"} {
		said += s.inspect(t, service, "{{json .}}")
	}
	secrets := s.secrets(t)
	if len(secrets) < 8 {
		t.Errorf("only %d secrets were found", len(secrets))
	}
	for name, content := range secrets {
		_, after, bearer := strings.Cut(content, "Bearer ")
		if bearer {
			content = after
		}
		if len(content) < 16 || strings.Contains(said, content) {
			t.Errorf("%s holds %d bytes, or they are in a log or a container's settings", name, len(content))
		}
	}
	resp, body := harness.Ask(t, nil, http.MethodPost, "http://127.0.0.1:8080/hook/registry", strings.NewReader(`{"events":[]}`), harness.Header("Authorization", "Bearer "+secrets["relay-secrets/relay_token"]))
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("an envelope that nobody signed is answered with %s %s", resp.Status, body)
	}
}

// A stack that was taken down has its secrets and images when it is up again, and
// docker-compose.tls.yml puts it behind HTTPS and a login.
func checkTLS(t *testing.T, s *stack, you person) {
	const password = "correct horse"
	before := fmt.Sprint(s.secrets(t))
	s.compose(t, "", "down")
	over := &stack{engine: s.engine, override: "tls", env: s.env}
	over.compose(t, password+"\n", "run", "--rm", "--no-deps", "-T", "registry", "htpasswd", "--password-stdin", "/etc/docker/registry/auth/htpasswd", "alice")
	over.compose(t, "", "up", "-d")
	if fmt.Sprint(s.secrets(t)) != before {
		t.Error("the secrets changed")
	}
	var authority []byte // that Caddy makes for names of this machine alone
	eventually(t, func() (err error) {
		authority, err = os.ReadFile(filepath.Join(s.dir, "data/volumes/slipway_proxy-data/_data/caddy/pki/authorities/local/root.crt"))
		return err
	})
	trusted, pool := filepath.Join("/etc/docker/certs.d", names[0]), x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	if err := os.MkdirAll(trusted, 0o755); err != nil {
		t.Fatal(err)
	}
	harness.Write(t, filepath.Join(trusted, "ca.crt"), string(authority))
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	eventually(t, func() error {
		resp, err := client.Get("https://" + names[0] + "/v2/")
		if err == nil {
			resp.Body.Close()
		}
		return err
	})
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
	s.push(t, names[0]+"/hello:tls")
	s.docker(t, "rmi", "-f", "localhost:5000/hello:first")
	s.docker(t, "pull", names[0]+"/hello:first")
	you.reads(t, "hello:tls")
	resp, _ := harness.Ask(t, client, http.MethodPost, "https://alice:correct%20horse@"+names[0]+"/v2/hello/blobs/uploads/", nil, harness.Header("Forwarded", "host=elsewhere.example;proto=http"))
	if at := resp.Header.Get("Location"); !strings.HasPrefix(at, "https://"+names[0]+"/v2/hello/blobs/uploads/") {
		t.Errorf("an upload starts with %s at %q", resp.Status, at)
	}
}
