// Package releasetest_test holds the archives of a release: what is in them, that
// they run, and that the same sources give the same bytes anywhere.
package releasetest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"slipway/shared/programtest"
	"slipway/tools/harness"
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
func TestFull_Release(t *testing.T) {
	root := programtest.Root(t)
	dist := build(t, root, "linux/amd64", "darwin/arm64")
	if sums := harness.Run(t, "sh", "-c", `cd "$0" && sha256sum --check --strict SHA256SUMS`, dist); strings.Count(sums, ": OK\n") != 8 {
		t.Errorf("SHA256SUMS:\n%s", sums)
	}
	archives, _ := filepath.Glob(filepath.Join(dist, "*.tar.gz"))
	for _, archive := range archives {
		dir, name := t.TempDir(), strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
		harness.Run(t, "tar", "-xzf", archive, "-C", dir)
		checkFiles(t, filepath.Join(dir, name))
		checkProgram(t, filepath.Join(dir, name), filepath.Join(dist, name+".cdx.json"), strings.Split(name, "_"))
	}
	t.Run("again", func(t *testing.T) { checkAgain(t, root, dist) })
}

var link = regexp.MustCompile(`\]\(([^)#:]+)[^):]*\)`)

// checkFiles: what docs/install.md leaves out is in the archive, with what its page
// refers to; nothing is empty, and nobody but the owner writes.
func checkFiles(t *testing.T, dir string) {
	t.Helper()
	names := []string{"-c", `cd "$0" && ls -d "$@"`, dir, "LICENSE", "INSTALL.md", "config.example.yml", "deploy/prometheus/registry.rules.yml", "deploy/charts"}
	for _, m := range link.FindAllStringSubmatch(harness.Read(t, filepath.Join(dir, "README.md")), -1) {
		names = append(names, m[1])
	}
	if len(names) < 8 {
		t.Errorf("%s: README.md refers to nothing", filepath.Base(dir))
	}
	harness.Run(t, "sh", names...)
	if odd := harness.Run(t, "find", dir, "-perm", "/022", "-o", "-empty"); odd != "" {
		t.Errorf("empty, or others may write:\n%s", odd)
	}
}

// checkProgram: it is built for the platform, without C, and its bill of materials
// has what it is made of, and no module of this repository.
func checkProgram(t *testing.T, dir, bill string, name []string) {
	t.Helper()
	service := name[0]
	settings := harness.Run(t, "go", "version", "-m", filepath.Join(dir, service))
	for _, want := range []string{"GOOS=" + name[2], "GOARCH=" + name[3], "CGO_ENABLED=0"} {
		if !strings.Contains(settings, "\t"+want+"\n") {
			t.Errorf("%s is not built with %s:\n%s", dir, want, settings)
		}
	}
	text := harness.Read(t, bill)
	for _, want := range []string{`"bomFormat": "CycloneDX"`, `"name": "` + service + `"`, `"version": "` + version + `"`, "pkg:golang/std@" + strings.TrimPrefix(runtime.Version(), "go"), "pkg:golang/github.com/spf13/cobra@"} {
		if !strings.Contains(text, want) || strings.Contains(text, "pkg:golang/slipway") {
			t.Errorf("%s lacks %s, or has modules of this repository", bill, want)
		}
	}
}

// checkAgain builds for this platform from a copy of the sources in another
// place: the bytes are the same.
func checkAgain(t *testing.T, root, dist string) {
	copied := t.TempDir()
	harness.Run(t, "sh", "-c", `cd "$0" && cp -r deploy docs registry relay shared tools CHANGELOG.md LICENSE go.work go.work.sum "$1"`, root, copied)
	first, again := harness.Read(t, filepath.Join(dist, "SHA256SUMS")), harness.Read(t, filepath.Join(build(t, copied, runtime.GOOS+"/"+runtime.GOARCH), "SHA256SUMS"))
	for line := range strings.Lines(again) {
		if !strings.Contains(first, line) {
			t.Errorf("a second time it is %sthe first time\n%s", line, first)
		}
	}
}
