package doctest_test

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"slipway/shared/programtest"
	"slipway/tools/harness"
)

var (
	month       = regexp.MustCompile(`^20\d\d-(0[1-9]|1[0-2])$`)
	requirement = regexp.MustCompile(`(?m)^([a-z0-9-]+)==(\S+?)(?: \\)?$`)
	goRequired  = regexp.MustCompile(`(?m)^\t(\S+) (v\S+)$`)
	moduleTail  = regexp.MustCompile(`/v\d+$`)
)

// pinned returns the versions that CI installs, by the names of programs and packages. Debian's packages have the
// version "Debian 12".
func pinned(t *testing.T) map[string]string {
	root, versions := programtest.Root(t), map[string]string{}
	for line := range strings.Lines(harness.Read(t, filepath.Join(root, "tools/versions.txt"))) {
		f := strings.Fields(line)
		if len(f) < 4 || f[0] == "#" {
			continue
		}
		switch f[0] {
		case "apt":
			versions[f[2]], versions[f[3]] = "Debian 12", "Debian 12"
			continue
		case "lock":
			for _, m := range requirement.FindAllStringSubmatch(harness.Read(t, filepath.Join(root, f[3])), -1) {
				versions[m[1]] = m[2]
			}
			continue
		}
		versions[f[2]], versions[path.Base(f[3])] = f[4], f[4]
		for _, extra := range f[5:] {
			at := strings.LastIndexAny(extra, "=@")
			versions[strings.TrimRight(extra[:at], "=")] = extra[at+1:]
		}
	}
	for _, m := range goRequired.FindAllStringSubmatch(harness.Read(t, filepath.Join(root, "relay/e2e/clients/go.mod")), -1) {
		module := moduleTail.ReplaceAllString(m[1], "")
		versions[path.Base(module)], versions[strings.TrimPrefix(module, "github.com/")] = m[2], m[2]
	}
	return versions
}

// TestCompatibility: a row that CI is said to run names the version that CI installs, and any other the month in which
// somebody ran it.
func TestCompatibility(t *testing.T) {
	versions, ci := pinned(t), 0
	for line := range strings.Lines(harness.Read(t, filepath.Join(programtest.Root(t), "docs/compatibility.md"))) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) < 4 || strings.HasPrefix(cells[0], "---") || strings.Contains(line, "| version | tried |") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		name, version, tried := cells[0], cells[1], cells[2]
		if tried != "CI" {
			if !month.MatchString(tried) || version == "" {
				t.Errorf("%s: needs a version and CI or a month such as 2026-11", name)
			}
			continue
		}
		ci++
		words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune(" ,()", r) })
		if !slices.ContainsFunc(words, func(w string) bool {
			return versions[w] != "" && versions[w] == strings.TrimSpace(strings.Split(version, " (")[0])
		}) {
			t.Errorf("%s %s: tools/versions.txt and relay/e2e/clients/go.mod don't pin this", name, version)
		}
	}
	if ci < 20 {
		t.Errorf("only %d rows of CI", ci)
	}
}
