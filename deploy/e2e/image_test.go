package e2e

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/deploy/internal/harness"
	"slipway/shared/programtest"
)

// inspected is what docker says about an image.
type inspected struct {
	Architecture string
	Size         int64
	Config       struct {
		User            string
		Entrypoint, Cmd []string
		ExposedPorts    map[string]struct{}
		Volumes         map[string]struct{}
		Labels          map[string]string
		Healthcheck     *struct{ Test []string }
	}
}

func (e *engine) inspect(t *testing.T, image string) inspected {
	t.Helper()
	var found []inspected
	if err := json.Unmarshal([]byte(e.docker(t, "image", "inspect", image)), &found); err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %d images", image, err, len(found))
	}
	return found[0]
}

// What users of an image rely on.
func checkImage(t *testing.T, e *engine, service string) {
	image := "slipway/" + service
	i := e.inspect(t, image)
	want := map[string]struct {
		entry, cmd    []string
		ports, volume []string
	}{
		"registry": {[]string{"registry"}, []string{"serve", "/etc/docker/registry/config.yml"}, []string{"5000/tcp", "5001/tcp"}, []string{"/var/lib/registry"}},
		"relay":    {[]string{"relay"}, []string{"serve"}, []string{"8080/tcp"}, []string{"/data"}},
	}[service]
	c := i.Config
	if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, want.entry) || !slices.Equal(c.Cmd, want.cmd) ||
		!slices.Equal(keys(c.ExposedPorts), want.ports) || !slices.Equal(keys(c.Volumes), want.volume) ||
		c.Healthcheck == nil || !slices.Equal(c.Healthcheck.Test, []string{"CMD", "/bin/" + service, "health"}) {
		t.Errorf("%s is %+v", image, c)
	}
	if i.Size > 40_000_000 {
		t.Errorf("%s has %d bytes", image, i.Size)
	}
	if l := c.Labels; l["org.opencontainers.image.version"] != testVersion || l["org.opencontainers.image.revision"] != testCommit || l["org.opencontainers.image.licenses"] != "Apache-2.0" {
		t.Errorf("%s has the labels %q", image, l)
	}
	if out := e.docker(t, "run", "--rm", "--network", "none", image, "version"); !strings.Contains(out, testVersion) || !strings.Contains(out, testCommit) {
		t.Errorf("%s says it is %q", image, out)
	}
	if in, here := sum(t, e.binary(t, image, service)), sum(t, elsewhere(t, target{service, "amd64"})); in != here {
		t.Errorf("the binary in %s has the digest %s, one built elsewhere %s", image, in, here)
	}
}

func keys(m map[string]struct{}) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// binary copies a service out of an image.
func (e *engine) binary(t *testing.T, image, service string) string {
	t.Helper()
	id := strings.TrimSpace(e.docker(t, "create", image))
	defer e.docker(t, "rm", id)
	path := filepath.Join(t.TempDir(), service)
	e.docker(t, "cp", id+":/bin/"+service, path)
	return path
}

func sum(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(content))
}

// elsewhere compiles a service in another directory, with another cache.
func elsewhere(t *testing.T, b target) string {
	t.Helper()
	dir := t.TempDir()
	for _, module := range []string{"shared", b.service} {
		if err := os.CopyFS(filepath.Join(dir, module), os.DirFS(filepath.Join(programtest.Root(t), module))); err != nil {
			t.Fatal(err)
		}
	}
	output := filepath.Join(dir, "built")
	build(t, dir, strings.TrimSpace(harness.Run(t, goTool(t), "env", "GOCACHE")), b, output)
	return output
}

// The image is cross-compiled, with BuildKit, on a machine that cannot run it.
func checkCross(t *testing.T, e *engine, env []string) {
	for _, b := range targets[2:] {
		image := "slipway/" + b.service + ":arm64"
		args := []string{"build", "-q", "--platform", "linux/arm64", "-f", b.service + "/Dockerfile", "-t", image}
		for _, variable := range env {
			args = append(args, "--build-arg", variable)
		}
		if out, err := e.run(t, command{name: "docker", args: append(args, "."), env: []string{"DOCKER_BUILDKIT=1"}}); err != nil {
			t.Fatalf("docker build of %s: %v\n%s", image, err, tail(out))
		}
		if i := e.inspect(t, image); i.Architecture != "arm64" || i.Size > 40_000_000 {
			t.Errorf("%s is for %s and has %d bytes", image, i.Architecture, i.Size)
		}
		f, err := elf.Open(e.binary(t, image, b.service))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if f.Machine != elf.EM_AARCH64 {
			t.Errorf("the binary in %s is for %s", image, f.Machine)
		}
		if libraries, err := f.ImportedLibraries(); err != nil || len(libraries) > 0 {
			t.Errorf("the binary in %s needs %q (%v)", image, libraries, err)
		}
	}
}

// The registry's image is used in all the ways that distribution's images are.
func checkRegistryImage(t *testing.T, e *engine) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yml")
	text := "version: 0.1\nlog: {fields: {service: marked}}\nstorage: {filesystem: {rootdirectory: /var/lib/registry}}\nhttp: {addr: \":5000\"}\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		options, args []string
		log           string
	}{
		"nothing given":           {nil, nil, "service=registry"},
		"file of 2.8":             {[]string{"-v", file + ":/etc/docker/registry/config.yml:ro"}, nil, "service=marked"},
		"file of 3":               {[]string{"-v", file + ":/etc/distribution/config.yml:ro"}, nil, "service=marked"},
		"directory of 2.8":        {[]string{"-v", dir + ":/etc/docker/registry:ro"}, nil, "service=marked"},
		"directory of 3":          {[]string{"-v", dir + ":/etc/distribution:ro"}, nil, "service=marked"},
		"serve, file of 3":        {[]string{"-v", file + ":/etc/distribution/config.yml:ro"}, []string{"serve", "/etc/distribution/config.yml"}, "service=marked"},
		"serve and nothing":       {nil, []string{"serve"}, "service=registry"},
		"file as the argument":    {[]string{"-v", file + ":/marked.yml:ro"}, []string{"/marked.yml"}, "service=marked"},
		"program as the argument": {nil, []string{"registry", "serve", "/etc/docker/registry/config.yml"}, "service=registry"},
		"variables":               {[]string{"-e", "REGISTRY_LOG_FIELDS_SERVICE=marked", "-e", "REGISTRY_STORAGE_DELETE_ENABLED=true"}, nil, "service=marked"},
		"another storage":         {[]string{"-e", "REGISTRY_STORAGE=inmemory"}, nil, "storage=inmemory"},
		"root's old volume":       {[]string{"-v", rootsVolume(t) + ":/var/lib/registry"}, nil, "65532"},
	} {
		t.Run(name, func(t *testing.T) {
			options := append([]string{"run", "-d", "--read-only", "--cap-drop", "ALL", "--network", "none", "--health-interval", "1s"}, c.options...)
			id := strings.TrimSpace(e.docker(t, append(append(options, "slipway/registry"), c.args...)...))
			defer e.docker(t, "rm", "-f", "-v", id)
			e.waitLog(t, id, c.log)
		})
	}
}

// rootsVolume is a directory as registries left it that ran as root.
func rootsVolume(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "docker", "registry", "v2", "repositories"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (e *engine) waitLog(t *testing.T, container, want string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		said, err := e.run(t, command{name: "docker", args: []string{"logs", container}})
		if err != nil {
			t.Fatalf("docker logs: %v\n%s", err, said)
		}
		if strings.Contains(said, want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%q is not in the log:\n%s", want, tail(said))
		}
	}
}
