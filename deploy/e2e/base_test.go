package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/deploy/internal/harness"
	"slipway/shared/programtest"
)

// The images that the Dockerfiles and docker-compose.yml name are made here out
// of Debian's packages and this machine's tools, so that no test downloads from
// another registry. What takes long to make stays in .tools/images.

// target is a service on an architecture.
type target struct{ service, arch string }

var targets = []target{{"registry", "amd64"}, {"relay", "amd64"}, {"registry", "arm64"}, {"relay", "arm64"}}

const (
	testVersion = "v1.2.3-test"
	testCommit  = "0123456789abcdef0123456789abcdef01234567"
	testDate    = "2026-01-02T03:04:05Z"
)

// makeBases gives the engine look-alikes of golang, matrixdotorg/synapse and
// caddy, under the names that the files ask for.
func (e *engine) makeBases(t *testing.T) {
	t.Helper()
	root := programtest.Root(t)
	services := withTLS(t).Services
	debian, cache := debian(t), filepath.Join(root, ".tools", "images", "go-build")
	for _, b := range targets {
		build(t, root, cache, b, filepath.Join(t.TempDir(), "discarded"))
	}
	goroot := strings.TrimSpace(harness.Run(t, goTool(t), "env", "GOROOT"))
	e.importImage(t, "golang:1.26", []string{"-C", debian, ".", "-C", filepath.Dir(goroot), filepath.Base(goroot), "-C", filepath.Dir(cache), filepath.Base(cache)},
		[]string{"--transform=s,^" + filepath.Base(goroot) + "/,usr/local/go/,", "--transform=s,^go-build,root/.cache/go-build,", "--exclude=" + filepath.Base(goroot) + "/test", "--exclude=" + filepath.Base(goroot) + "/api"},
		"ENV PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "ENV GOTOOLCHAIN=local", "WORKDIR /go")

	packages, err := filepath.Glob(filepath.Join(root, ".tools", "synapse", "lib", "python3.*", "site-packages"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("no Synapse in .tools/synapse (%v); `make tools` installs it", err)
	}
	start := filepath.Join(root, "deploy", "e2e", "testdata")
	e.importImage(t, services["synapse"].Image, []string{"-C", debian, ".", "-C", filepath.Dir(packages[0]), "site-packages", "-C", start, "start.py"},
		[]string{"--transform=s,^site-packages,opt/synapse,", "--exclude=__pycache__"},
		`ENTRYPOINT ["/start.py"]`, "ENV PYTHONPATH=/opt/synapse", "EXPOSE 8008")

	caddy := programtest.Tool(t, "caddy")
	e.importImage(t, services["proxy"].Image, []string{"-C", debian, ".", "-C", filepath.Dir(caddy), "caddy"},
		[]string{"--transform=s,^caddy$,usr/local/bin/caddy,"},
		`CMD ["caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]`, "ENV XDG_CONFIG_HOME=/config XDG_DATA_HOME=/data", "EXPOSE 80 443")
}

// importImage makes an image of one layer out of files, given as to tar.
func (e *engine) importImage(t *testing.T, name string, files, options []string, changes ...string) {
	t.Helper()
	arguments := []string{"import"}
	for _, c := range changes {
		arguments = append(arguments, "-c", c)
	}
	pack := exec.CommandContext(t.Context(), "tar", append(append([]string{"-c", "--exclude=./var/cache/apt", "--exclude=./var/lib/apt/lists"}, options...), files...)...)
	load := exec.CommandContext(t.Context(), "/usr/bin/docker", append(arguments, "-", name)...)
	load.Env = []string{"DOCKER_HOST=unix://" + filepath.Join(e.dir, "docker.sock"), "HOME=" + e.dir}
	var packed, loaded strings.Builder
	pack.Stderr, load.Stderr = &packed, &loaded
	pipe, err := pack.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	load.Stdin = pipe
	if err := pack.Start(); err != nil {
		t.Fatal(err)
	}
	err = load.Run()
	if packErr := pack.Wait(); err != nil || packErr != nil {
		t.Fatalf("%s: %v %s, tar: %v %s", name, err, loaded.String(), packErr, packed.String())
	}
}

// debian is the root directory of a small Debian with this machine's certificates.
func debian(t *testing.T) string {
	t.Helper()
	images := filepath.Join(programtest.Root(t), ".tools", "images")
	dir := filepath.Join(images, "bookworm")
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := os.MkdirAll(images, 0o755); err != nil {
		t.Fatal(err)
	}
	half, err := os.MkdirTemp(images, "half")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(half) })
	made := filepath.Join(half, "bookworm")
	harness.Run(t, "debootstrap", "--variant=minbase", "--include=ca-certificates,python3,curl,gosu", "bookworm", made)
	certificates, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(made, "etc/ssl/certs/ca-certificates.crt"), certificates, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(made, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// build compiles what a Dockerfile does, in the tree below root.
func build(t *testing.T, root, cache string, b target, output string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), goTool(t), "build", "-tags", "goolm", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X main.version="+testVersion+" -X main.commit="+testCommit+" -X main.date="+testDate,
		"-o", output, "./cmd/"+b.service)
	cmd.Dir = filepath.Join(root, b.service)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOOS=linux", "GOARCH="+b.arch, "GOCACHE="+cache)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s for %s: %v\n%s", b.service, b.arch, err, out)
	}
}

func goTool(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// serveModules serves this machine's modules to the builds in the engine and
// returns the address for GOPROXY.
func (e *engine) serveModules(t *testing.T) string {
	t.Helper()
	for _, b := range targets[:2] {
		cmd := exec.CommandContext(t.Context(), goTool(t), "mod", "download")
		cmd.Dir = filepath.Join(programtest.Root(t), b.service)
		cmd.Env = append(os.Environ(), "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go mod download: %v\n%s", err, out)
		}
	}
	l, err := e.listen("172.17.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	modules := strings.TrimSpace(harness.Run(t, goTool(t), "env", "GOMODCACHE"))
	s := &http.Server{Handler: http.FileServer(http.Dir(filepath.Join(modules, "cache", "download")))}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return "http://" + l.Addr().String()
}
