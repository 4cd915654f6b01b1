// Package release_test holds the archives of a release: what is in them, that
// they run, and that the same sources give the same bytes anywhere.
package release_test

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"slipway/deploy/internal/harness"
	"slipway/shared/programtest"
)

const version = "v9.8.7"

// build runs tools/release of the sources in root and returns the directory of
// what it made.
func build(t *testing.T, root string, platforms ...string) string {
	t.Helper()
	dist := filepath.Join(t.TempDir(), "dist")
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "tools", "release"), platforms...)
	cmd.Env = append(os.Environ(), "VERSION="+version, "COMMIT=0123456789", "DATE=2026-01-02T03:04:05Z", "DIST="+dist)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tools/release: %v\n%s", err, out)
	}
	return dist
}

// Each system and each processor once; the release workflow builds all four pairs.
var platforms = [][2]string{{"linux", "amd64"}, {"darwin", "arm64"}}

func TestRelease(t *testing.T) {
	root := programtest.Root(t)
	dist := build(t, root, "linux/amd64", "darwin/arm64")
	check := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = dist
	if out, err := check.CombinedOutput(); err != nil || strings.Count(string(out), ": OK\n") != 8 {
		t.Errorf("SHA256SUMS: %v\n%s", err, out)
	}
	for _, service := range []string{"registry", "relay"} {
		for _, p := range platforms {
			name := fmt.Sprintf("%s_%s_%s_%s", service, version, p[0], p[1])
			dir := t.TempDir()
			harness.Run(t, "tar", "-xzf", filepath.Join(dist, name+".tar.gz"), "-C", dir)
			dir = filepath.Join(dir, name)
			checkFiles(t, dir, service, p[0])
			checkLinks(t, dir)
			checkProgram(t, filepath.Join(dir, service), filepath.Join(dist, name+".cdx.json"), service, p[0], p[1])
			if p[0] == runtime.GOOS && p[1] == runtime.GOARCH {
				checkRuns(t, dir, service)
			}
		}
	}
	t.Run("again", func(t *testing.T) { checkAgain(t, root, dist) })
}

func checkFiles(t *testing.T, dir, service, system string) {
	t.Helper()
	want := []string{
		service, "LICENSE", "README.md", "INSTALL.md", "config.example.yml", "config.production.yml",
		"share/man/man1/" + service + ".1", "share/man/man1/" + service + "-config-check.1",
		"share/bash-completion/completions/" + service, "share/zsh/site-functions/_" + service, "share/fish/vendor_completions.d/" + service + ".fish",
	}
	if system == "linux" {
		want = append(want, "systemd/"+service+".service", "systemd/slipway.conf")
	}
	for _, name := range want {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Size() == 0 || info.Mode().Perm()&0o022 != 0 || name == service && info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %s: %v, %v", filepath.Base(dir), name, info, err)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]+)[^):]*\)`)

// checkLinks: what the page of an archive refers to is in the archive.
func checkLinks(t *testing.T, dir string) {
	t.Helper()
	links := link.FindAllStringSubmatch(harness.Read(t, filepath.Join(dir, "README.md")), -1)
	if len(links) == 0 {
		t.Errorf("%s: README.md refers to nothing", filepath.Base(dir))
	}
	for _, m := range links {
		if _, err := os.Stat(filepath.Join(dir, m[1])); err != nil {
			t.Errorf("README.md: %v", err)
		}
	}
}

// checkProgram: it is built for the platform, without C, and its bill of materials
// has what it is made of.
func checkProgram(t *testing.T, program, bill, service, system, processor string) {
	t.Helper()
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["GOOS"] != system || settings["GOARCH"] != processor || settings["CGO_ENABLED"] != "0" {
		t.Errorf("%s is built with %v", program, settings)
	}
	text := harness.Read(t, bill)
	for _, want := range []string{`"bomFormat": "CycloneDX"`, `"name": "` + service + `"`, `"version": "` + version + `"`, "pkg:golang/std@" + strings.TrimPrefix(runtime.Version(), "go"), "pkg:golang/github.com/spf13/cobra@"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %s", bill, want)
		}
	}
	if strings.Contains(text, "pkg:golang/slipway") {
		t.Errorf("%s has modules of this repository", bill)
	}
}

// checkRuns: the program tells its version, and the configurations beside it are
// ones it takes.
func checkRuns(t *testing.T, dir, service string) {
	t.Helper()
	program := filepath.Join(dir, service)
	want := fmt.Sprintf("%s slipway/%s %s\ncommit 0123456789 of 2026-01-02T03:04:05Z, ", service, service, version)
	if got := harness.Run(t, program, "version"); !strings.HasPrefix(got, want) {
		t.Errorf("version: %q, want %q", got, want)
	}
	for _, name := range []string{"config.example.yml", "config.production.yml"} {
		if out, err := harness.CheckConfig(t, program, filepath.Join(dir, name)); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// checkAgain builds for this platform from a copy of the sources in another
// place: the bytes are the same.
func checkAgain(t *testing.T, root, dist string) {
	copied := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Mkdir(copied, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"deploy", "docs", "registry", "relay", "shared", "tools", "LICENSE", "go.work", "go.work.sum"} {
		harness.Run(t, "cp", "-r", filepath.Join(root, name), copied)
	}
	again := build(t, copied, runtime.GOOS+"/"+runtime.GOARCH)
	files, err := filepath.Glob(filepath.Join(again, "*_*"))
	if err != nil || len(files) != 4 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		if harness.Read(t, file) != harness.Read(t, filepath.Join(dist, filepath.Base(file))) {
			t.Errorf("%s is not the same a second time", filepath.Base(file))
		}
	}
}
