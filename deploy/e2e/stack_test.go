package e2e

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stack is docker-compose.yml in an engine, with or without an override.
type stack struct {
	engine *engine
	files  []string
	env    []string
	input  string // of what runs in a container
}

func (s *stack) try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	all := []string{"--no-ansi", "-p", project}
	for _, f := range s.files {
		all = append(all, "-f", f)
	}
	return s.engine.run(t, command{name: "docker-compose", args: append(all, args...), env: s.env, input: s.input})
}

const project = "slipway"

// compose runs docker-compose to its end; when it fails the test tells what the
// containers said.
func (s *stack) compose(t *testing.T, args ...string) string {
	t.Helper()
	start := time.Now()
	out, err := s.try(t, args...)
	t.Logf("%.1fs docker-compose %s", time.Since(start).Seconds(), args)
	if err != nil {
		said, _ := s.try(t, "logs", "--no-color", "--tail", "30")
		t.Fatalf("docker-compose %s: %v\n%s\n%s", strings.Join(args, " "), err, tail(out), tail(said))
	}
	return out
}

// container is the name that docker-compose gives to the container of a service.
func (s *stack) container(service string) string { return project + "_" + service + "_1" }

// state is one of a container's, by docker's template.
func (s *stack) state(t *testing.T, service, template string) string {
	t.Helper()
	return strings.TrimSpace(s.engine.docker(t, "inspect", "-f", template, s.container(service)))
}

// waitHealthy waits until each service says by its own check that it is well.
func (s *stack) waitHealthy(t *testing.T, services ...string) {
	t.Helper()
	for _, service := range services {
		for end := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
			health := s.state(t, service, "{{.State.Health.Status}}")
			if health == "healthy" {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s is %s\n%s", service, health, s.engine.docker(t, "logs", "--tail", "30", s.container(service)))
			}
		}
	}
}

// waitAnswer waits until the registry answers.
func (s *stack) waitAnswer(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		resp, err := s.engine.http.Get("http://127.0.0.1:5000/v2/")
		if err == nil {
			resp.Body.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the registry: %v", err)
		}
	}
}

// volume is where the engine keeps the files of a volume.
func (s *stack) volume(name string) string {
	return filepath.Join(s.engine.dir, "data", "volumes", project+"_"+name, "_data")
}

// secrets are all files that were made to be kept from others, by their paths.
// Each must be its owner's alone.
func (s *stack) secrets(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, name := range []string{"relay-secrets", "registry-secrets"} {
		err := filepath.WalkDir(s.volume(name), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			found[filepath.Join(name, d.Name())] = strings.TrimSpace(string(content))
			return errors.Join(err, onlyOwners(path))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"registration.secret", "signing.key"} {
		path := filepath.Join(s.volume("synapse-data"), name)
		content, err := os.ReadFile(path)
		if err := errors.Join(err, onlyOwners(path)); err != nil {
			t.Fatal(err)
		}
		found[filepath.Join("synapse-data", name)] = strings.TrimSpace(string(content))
	}
	return found
}

func onlyOwners(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode().Perm() != 0o600 || info.Sys().(*syscall.Stat_t).Uid != 65532 {
		return errors.New(path + " is not 65532's alone: " + info.Mode().String())
	}
	return nil
}

func sortedNames(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// image makes an image of one small layer.
func (e *engine) image(t *testing.T, name, content string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "content")
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	e.importImage(t, name, []string{"-C", filepath.Dir(file), "content"}, nil, `CMD ["/content"]`)
}

// push makes an image and pushes it, as anybody does.
func (e *engine) push(t *testing.T, name string) {
	t.Helper()
	e.image(t, name, "what is in "+name)
	e.docker(t, "push", name)
}

// pull gets an image that the engine does not have any more.
func (e *engine) pull(t *testing.T, name string) {
	t.Helper()
	e.docker(t, "rmi", "-f", name)
	e.docker(t, "pull", name)
}
