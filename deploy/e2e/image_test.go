package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"slipway/deploy/internal/harness"
	"slipway/shared/programtest"
)

var services = []string{"registry", "relay"}

const (
	testVersion = "v1.2.3-test"
	testCommit  = "0123456789abcdef0123456789abcdef01234567"
)

// prepare makes what the engine needs and only a machine with a network has: a
// Debian, both services in a build cache, and their modules. What takes long to
// make stays in .tools/images.
func prepare(t *testing.T) {
	t.Helper()
	root := programtest.Root(t)
	images := filepath.Join(root, ".tools", "images")
	debian := filepath.Join(images, "bookworm")
	if _, err := os.Stat(debian); err != nil {
		half := filepath.Join(images, "half")
		if err := errors.Join(os.RemoveAll(half), os.MkdirAll(images, 0o755)); err != nil {
			t.Fatal(err)
		}
		harness.Run(t, "debootstrap", "--variant=minbase", "--include=ca-certificates,python3,curl,gosu", "bookworm", half)
		harness.Run(t, "cp", "/etc/ssl/certs/ca-certificates.crt", filepath.Join(half, "etc/ssl/certs"))
		if err := os.Rename(half, debian); err != nil {
			t.Fatal(err)
		}
	}
	for _, service := range services {
		for _, arguments := range [][]string{
			{"mod", "download"},
			{"build", "-tags", "goolm", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", filepath.Join(t.TempDir(), "built"), "./cmd/" + service}, // as the Dockerfile does
		} {
			cmd := exec.CommandContext(t.Context(), "go", arguments...)
			cmd.Dir = filepath.Join(root, service)
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOCACHE="+filepath.Join(images, "go-build"))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s of the %s: %v\n%s", cmd, service, err, out)
			}
		}
	}
}

// makeBases gives the engine look-alikes of golang, matrixdotorg/synapse and
// caddy, under the names that the files ask for, out of what prepare made and this
// machine's tools: no test downloads from another registry.
func (e *engine) makeBases(t *testing.T) {
	t.Helper()
	root, project := programtest.Root(t), load(t, "tls")
	images := filepath.Join(root, ".tools", "images")
	debian := filepath.Join(images, "bookworm")
	goroot := goEnv(t, "GOROOT")
	name := filepath.Base(goroot)
	e.importImage(t, "golang:1.26", []string{
		"--transform=s,^" + name + "/,usr/local/go/,", "--transform=s,^go-build,root/.cache/go-build,", "--exclude=" + name + "/test", "--exclude=" + name + "/api",
		"-C", debian, ".", "-C", filepath.Dir(goroot), name, "-C", images, "go-build",
	}, "ENV PATH=/usr/local/go/bin:"+debianPath, "ENV GOTOOLCHAIN=local", "WORKDIR /go")

	packages, err := filepath.Glob(filepath.Join(root, ".tools", "synapse", "lib", "python3.*", "site-packages"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("no Synapse in .tools/synapse (%v); `make tools` installs it", err)
	}
	e.importImage(t, project.Services["synapse"].Image, []string{
		"--transform=s,^site-packages,opt/synapse,", "--exclude=__pycache__",
		"-C", debian, ".", "-C", filepath.Dir(packages[0]), "site-packages", "-C", filepath.Join(root, "deploy", "e2e", "testdata"), "start.py",
	}, `ENTRYPOINT ["/start.py"]`, "ENV PYTHONPATH=/opt/synapse", "EXPOSE 8008")
	e.importImage(t, project.Services["proxy"].Image, []string{"--transform=s,^caddy$,usr/local/bin/caddy,", "-C", debian, ".", "-C", filepath.Dir(programtest.Tool(t, "caddy")), "caddy"},
		`CMD ["caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]`, "ENV XDG_CONFIG_HOME=/config XDG_DATA_HOME=/data", "EXPOSE 80 443")
}

// What users of an image rely on.
func checkImage(t *testing.T, e *engine, service string) {
	type config struct {
		User                  string
		Entrypoint, Cmd       []string
		ExposedPorts, Volumes map[string]struct{}
		Labels                map[string]string
		Healthcheck           struct{ Test []string }
	}
	var found []struct {
		Size   int64
		Config config
	}
	if err := json.Unmarshal([]byte(e.docker(t, "image", "inspect", "slipway/"+service)), &found); err != nil || len(found) != 1 {
		t.Fatalf("%v, %d images", err, len(found))
	}
	type set = map[string]struct{}
	want := map[string]config{
		"registry": {Cmd: []string{"serve", "/etc/docker/registry/config.yml"}, ExposedPorts: set{"5000/tcp": {}, "5001/tcp": {}}, Volumes: set{"/var/lib/registry": {}}},
		"relay":    {Cmd: []string{"serve"}, ExposedPorts: set{"8080/tcp": {}}, Volumes: set{"/data": {}}},
	}[service]
	want.User, want.Entrypoint, want.Healthcheck.Test = "65532:65532", []string{service}, []string{"CMD", "/bin/" + service, "health"}
	got := found[0].Config
	labels := got.Labels
	got.Labels = nil
	if !reflect.DeepEqual(got, want) || found[0].Size > 40_000_000 {
		t.Errorf("slipway/%s has %d bytes and is %+v, want %+v", service, found[0].Size, got, want)
	}
	if labels["org.opencontainers.image.version"] != testVersion || labels["org.opencontainers.image.revision"] != testCommit || labels["org.opencontainers.image.licenses"] != "Apache-2.0" {
		t.Errorf("slipway/%s has the labels %q", service, labels)
	}
	if out := e.docker(t, "run", "--rm", "--network", "none", "slipway/"+service, "version"); !strings.Contains(out, testVersion) || !strings.Contains(out, testCommit) {
		t.Errorf("slipway/%s says it is %q", service, out)
	}
}

// The registry's image is used in all the ways that distribution's images are.
func checkRegistryImage(t *testing.T, e *engine) {
	dir, old := t.TempDir(), t.TempDir()
	file := harness.Write(t, filepath.Join(dir, "config.yml"), "version: 0.1\nlog: {fields: {service: marked}}\nstorage: {filesystem: {rootdirectory: /var/lib/registry}}\nhttp: {addr: \":5000\"}\n")
	if err := errors.Join(os.Chmod(file, 0o644), os.Chmod(dir, 0o755), os.MkdirAll(filepath.Join(old, "docker/registry/v2/repositories"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ options, arguments, log string }{
		{"", "", "service=registry"},
		{"-v " + file + ":/etc/docker/registry/config.yml:ro", "", "service=marked"}, // 2.8
		{"-v " + file + ":/etc/distribution/config.yml:ro", "", "service=marked"},    // 3
		{"-v " + dir + ":/etc/docker/registry:ro", "", "service=marked"},
		{"-v " + dir + ":/etc/distribution:ro", "", "service=marked"},
		{"-v " + file + ":/etc/distribution/config.yml:ro", "serve /etc/distribution/config.yml", "service=marked"},
		{"", "serve", "service=registry"},
		{"-v " + file + ":/marked.yml:ro", "/marked.yml", "service=marked"},
		{"", "registry serve /etc/docker/registry/config.yml", "service=registry"},
		{"-e REGISTRY_LOG_FIELDS_SERVICE=marked", "", "service=marked"},
		{"-e REGISTRY_STORAGE=inmemory", "", "storage=inmemory"},
		{"-v " + old + ":/var/lib/registry", "", "65532"}, // root's, as older registries left it
	} {
		arguments := append(strings.Fields("run -d --read-only --cap-drop ALL --network none "+tt.options), "slipway/registry")
		id := e.docker(t, append(arguments, strings.Fields(tt.arguments)...)...)
		eventually(t, func() error {
			said, err := e.command("docker", "logs", id).CombinedOutput()
			if err != nil || !strings.Contains(string(said), tt.log) {
				return errors.New("docker run " + tt.options + " slipway/registry " + tt.arguments + ": no " + tt.log + " in its log:\n" + string(said))
			}
			return nil
		})
		e.docker(t, "rm", "-f", "-v", id)
	}
}
