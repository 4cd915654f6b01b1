package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/shared/programtest"
	"slipway/tools/harness"
)

var services = []string{"registry", "relay"}

const (
	testVersion = "v1.2.3-test"
	testCommit  = "0123456789abcdef0123456789abcdef01234567"
)

// prepare makes what the engine needs and only a machine with a network has: a
// Debian, both services in a build cache, their modules, and the reader of messages.
// What takes long to make stays in .tools/images.
func prepare(t *testing.T) {
	t.Helper()
	root := programtest.Root(t)
	images, retry := filepath.Join(root, ".tools", "images"), filepath.Join(root, "tools", "retry")
	debian := filepath.Join(images, "bookworm")
	if _, err := os.Stat(debian); err != nil {
		half := filepath.Join(images, "half")
		const bootstrap = `rm -rf "$1" && mkdir -p "$1" && "$0" --variant=minbase --include=ca-certificates,python3,curl,gosu bookworm "$1"`
		harness.Run(t, retry, "sh", "-c", bootstrap, programtest.Tool(t, "debootstrap"), half)
		harness.Run(t, "cp", "/etc/ssl/certs/ca-certificates.crt", filepath.Join(half, "etc/ssl/certs"))
		if err := os.Rename(half, debian); err != nil {
			t.Fatal(err)
		}
	}
	harness.DevHomeserver(t)
	for _, service := range services { // as the Dockerfiles do
		const build = `"$1" go mod download && go build -tags goolm -trimpath -buildvcs=false -ldflags "-s -w" -o "$0/built" ./cmd/`
		cmd := exec.CommandContext(t.Context(), "sh", "-c", build+service, t.TempDir(), retry)
		cmd.Dir = filepath.Join(root, service)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOCACHE="+filepath.Join(images, "go-build"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("the modules of the %s: %v\n%s", service, err, out)
		}
	}
}

// makeBases gives the engine look-alikes of golang, matrixdotorg/synapse and
// caddy, under the names that the files ask for, out of what prepare made and this
// machine's tools: no test downloads from another registry.
func (e *engine) makeBases(t *testing.T) {
	t.Helper()
	root, project := programtest.Root(t), load(t, "tls", overrides["tls"])
	images, goroot := filepath.Join(root, ".tools", "images"), strings.TrimSpace(harness.Run(t, "go", "env", "GOROOT"))
	debian, name := filepath.Join(images, "bookworm"), filepath.Base(goroot)
	e.importImage(t, "golang:1.26", "ENV PATH=/usr/local/go/bin:"+debianPath+"\nENV GOTOOLCHAIN=local\nWORKDIR /go",
		"--transform=s,^"+name+"/,usr/local/go/,", "--transform=s,^go-build,root/.cache/go-build,", "--exclude="+name+"/test", "--exclude="+name+"/api",
		"-C", debian, ".", "-C", filepath.Dir(goroot), name, "-C", images, "go-build")
	packages, err := filepath.Glob(filepath.Join(root, ".tools", "synapse", "lib", "python3.*", "site-packages"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("no Synapse in .tools/synapse (%v); `make tools` installs it", err)
	}
	e.importImage(t, project.Services["synapse"].Image, "ENTRYPOINT [\"/start.py\"]\nENV PYTHONPATH=/opt/synapse\nEXPOSE 8008",
		"--transform=s,^site-packages,opt/synapse,", "--exclude=__pycache__",
		"-C", debian, ".", "-C", filepath.Dir(packages[0]), "site-packages", "-C", filepath.Join(root, "deploy", "e2e", "testdata"), "start.py")
	e.importImage(t, project.Services["proxy"].Image,
		"CMD [\"caddy\", \"run\", \"--config\", \"/etc/caddy/Caddyfile\", \"--adapter\", \"caddyfile\"]\nENV XDG_CONFIG_HOME=/config XDG_DATA_HOME=/data\nEXPOSE 80 443",
		"--transform=s,^caddy$,usr/local/bin/caddy,", "-C", debian, ".", "-C", filepath.Dir(programtest.Tool(t, "caddy")), "caddy")
}

// What users of an image rely on.
func checkImage(t *testing.T, e *engine, service string) {
	const format = `{{.Config.User}} {{.Config.Entrypoint}} {{.Config.Cmd}} {{.Config.ExposedPorts}} {{.Config.Volumes}} {{.Config.Healthcheck.Test}}` +
		`{{range $name, $value := .Config.Labels}} {{$name}}={{$value}}{{end}}`
	got := e.docker(t, "image", "inspect", "-f", format, "slipway/"+service)
	want := map[string]string{
		"registry": "65532:65532 [registry] [serve /etc/docker/registry/config.yml] map[5000/tcp:{} 5001/tcp:{}] map[/var/lib/registry:{}] [CMD /bin/registry health] ",
		"relay":    "65532:65532 [relay] [serve] map[8080/tcp:{}] map[/data:{}] [CMD /bin/relay health] ",
	}[service]
	for _, label := range []string{".version=" + testVersion, ".revision=" + testCommit, ".licenses=Apache-2.0"} {
		if !strings.HasPrefix(got, want) || !strings.Contains(got+" ", " org.opencontainers.image"+label+" ") {
			t.Errorf("slipway/%s is %q, want %q and the label %s", service, got, want, label)
		}
	}
	if size := e.docker(t, "image", "inspect", "-f", "{{.Size}}", "slipway/"+service); len(size) > 8 || len(size) == 8 && size > "45000000" {
		t.Errorf("slipway/%s has %s bytes", service, size)
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
		{"", "registry serve /etc/docker/registry/config.yml", "service=registry"},
		{"-e REGISTRY_STORAGE=inmemory", "", "storage=inmemory"},
		{"-v " + old + ":/var/lib/registry", "", "65532"}, // root's, as older registries left it
	} {
		arguments := append(strings.Fields("run -d --read-only --cap-drop ALL --network none "+tt.options), "slipway/registry")
		id := e.docker(t, append(arguments, strings.Fields(tt.arguments)...)...)
		harness.Wait(t, func() error {
			said, err := e.command("docker", "logs", id).CombinedOutput()
			if err != nil || !strings.Contains(string(said), tt.log) {
				return errors.New("docker run " + tt.options + " slipway/registry " + tt.arguments + ": no " + tt.log + " in its log:\n" + string(said))
			}
			return nil
		})
		e.docker(t, "rm", "-f", "-v", id)
	}
}
