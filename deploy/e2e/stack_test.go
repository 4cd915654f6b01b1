// Package e2e proves the whole stack: the images as they are built, and
// docker-compose.yml as it is started, in a docker engine of the tests' own that
// reaches nothing outside of this machine.
package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"slipway/shared/programtest"
	"slipway/tools/harness"
)

// names that the ports of docker-compose.tls.yml are reached by.
var names = []string{"registry.localhost", "relay.localhost", "matrix.localhost"}

// stack is docker-compose.yml in an engine, with or without an override.
type stack struct {
	*engine
	override string
	env      []string
}

// compose runs docker-compose to its end; when it fails the test describes what the
// containers said.
func (s *stack) compose(t *testing.T, input string, args ...string) string {
	t.Helper()
	run := func(args ...string) (string, error) {
		all := []string{"--no-ansi", "-p", "slipway"}
		for _, f := range files(t, s.override) {
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

// waitAnswer waits until somebody answers.
func waitAnswer(t *testing.T, client *http.Client, url string) {
	t.Helper()
	harness.Wait(t, func() error {
		resp, err := client.Get(url)
		if err == nil {
			resp.Body.Close()
		}
		return err
	})
}

// person returns a reader of the account that setup shows, with a device that reads
// encrypted messages from now on. It waits for a message with the text and returns
// all messages.
func (s *stack) person(t *testing.T) (reads func(t *testing.T, text string) string) {
	t.Helper()
	shown := s.compose(t, "", "run", "--rm", "--no-deps", "-T", "setup", "setup", "show", "--secrets=/secrets/relay")
	password := regexp.MustCompile(`log in as @you:localhost +password (\S+)`).FindStringSubmatch(shown)
	if password == nil {
		t.Fatalf("setup shows no password:\n%s", shown)
	}
	dir, program := t.TempDir(), harness.DevHomeserver(t)
	file := harness.Write(t, filepath.Join(dir, "password"), password[1])
	reads = func(t *testing.T, text string) string {
		t.Helper()
		var out []byte
		harness.Wait(t, func() (err error) {
			out, err = exec.CommandContext(t.Context(), program, "messages", "--user", "you", "--password-file", file, "--device", filepath.Join(dir, "device")).CombinedOutput()
			if err != nil || !strings.Contains(string(out), text) {
				return fmt.Errorf("no message about %s in the room: %w\n%s", text, err, out)
			}
			return nil
		})
		return string(out)
	}
	reads(t, "")
	return reads
}

// TestFull_Stack starts what a user starts, unchanged: the images from the Dockerfiles,
// the services from docker-compose.yml.
func TestFull_Stack(t *testing.T) {
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

	waitAnswer(t, http.DefaultClient, "http://127.0.0.1:5000/v2/")
	youRead := s.person(t)
	e.push(t, "localhost:5000/hello:first")
	youRead(t, "hello:first")
	t.Run("secrets", func(t *testing.T) { checkSecrets(t, s) })
	// An event that the relay could not take survives the registry, on its volume.
	e.docker(t, "kill", "slipway_relay_1")
	e.push(t, "localhost:5000/waiting/hello:waiting")
	e.docker(t, "kill", "slipway_registry_1")
	e.docker(t, "start", "slipway_registry_1", "slipway_relay_1")
	youRead(t, "hello:waiting")
	t.Run("down and up with TLS", func(t *testing.T) { checkTLS(t, s, youRead) })
	all := youRead(t, "hello:tls")
	for _, text := range []string{"hello:first", "hello:waiting", "hello:tls", "sent beside TLS"} {
		if n := strings.Count(all, text); n != 1 {
			t.Errorf("%d messages about %s:\n%s", n, text, all)
		}
	}
	t.Run("down and up with two registries", func(t *testing.T) { checkReplicas(t, s, youRead) })
	t.Run("down and up with two relays", func(t *testing.T) { checkRelays(t, s) })
}

// Secrets are in files of their owner and nowhere else, and who has the token but
// not the secret that the registry signs with makes no message.
func checkSecrets(t *testing.T, s *stack) {
	said := s.compose(t, "", "logs", "--no-color") + s.compose(t, "", "config")
	for _, service := range []string{"registry", "relay", "synapse", "setup"} {
		said += s.docker(t, "inspect", "slipway_"+service+"_1")
	}
	volumes := s.volume("")
	names := strings.Fields(harness.Run(t, "find", volumes, "-type", "f", "(", "-path", "*-secrets/_data/*", "-o", "-name", "registration.secret", "-o", "-name", "signing.key", ")"))
	others := harness.Run(t, "find", append(names, "-not", "(", "-perm", "600", "-uid", "65532", ")")...)
	if len(names) < 8 || others != "" {
		t.Errorf("of %s others than 65532 can read\n%s", names, others)
	}
	for _, name := range names {
		words := strings.Fields("empty " + harness.Read(t, name))
		if secret := words[len(words)-1]; len(secret) < 16 || strings.Contains(said, secret) {
			t.Errorf("%s holds %d bytes, or they are in a log or a container's settings", name, len(secret))
		}
	}
	token := harness.Read(t, s.volume("relay-secrets/_data/relay_token"))
	resp, body := harness.Ask(t, nil, http.MethodPost, "http://127.0.0.1:8080/hook/registry", strings.NewReader(`{"events":[]}`), harness.Header("Authorization", "Bearer "+strings.TrimSpace(token)))
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("an envelope that nobody signed is answered with %s %s", resp.Status, body)
	}
}
