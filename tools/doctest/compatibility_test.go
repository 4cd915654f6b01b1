package doctest_test

import (
	"io/fs"
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

// pin is a version that CI installs, and how a test's source names the program or package.
type pin struct{ version, source string }

// pinned returns what CI installs, by the names of programs and packages, which can have several versions. Debian's packages have
// the version "Debian 12".
func pinned(t *testing.T) map[string][]pin {
	root, pins := programtest.Root(t), map[string][]pin{}
	add := func(version, source string, names ...string) {
		for _, name := range names {
			pins[name] = append(pins[name], pin{version, source})
		}
	}
	for line := range strings.Lines(harness.Read(t, filepath.Join(root, "tools/versions.txt"))) {
		f := strings.Fields(line)
		if len(f) < 4 || f[0] == "#" {
			continue
		}
		source := `"` + f[2] + `"`
		switch f[0] {
		case "apt":
			add("Debian 12", source, f[2], f[3])
			continue
		case "lock":
			for _, m := range requirement.FindAllStringSubmatch(harness.Read(t, filepath.Join(root, f[3])), -1) {
				add(m[2], source, m[1])
			}
			continue
		case "piplib", "npmlib":
			source = imported(f[3])
		}
		add(f[4], source, f[2], path.Base(f[3]))
		for _, extra := range f[5:] {
			at := strings.LastIndexAny(extra, "=@")
			name := strings.TrimRight(extra[:at], "=")
			add(extra[at+1:], imported(name), name)
		}
	}
	for _, dir := range []string{"clients", "alertmanager"} {
		for _, m := range goRequired.FindAllStringSubmatch(harness.Read(t, filepath.Join(root, "relay/e2e", dir, "go.mod")), -1) {
			module := moduleTail.ReplaceAllString(m[1], "")
			add(m[2], module, path.Base(module), strings.TrimPrefix(module, "github.com/"))
		}
	}
	return pins
}

// imported is the name of a package of Python or Node in programs.
func imported(name string) string {
	if strings.HasPrefix(name, "python-") {
		return strings.ReplaceAll(name, "-", "_")
	}
	return path.Base(name)
}

// sources returns the text of everything that only tests use.
func sources(t *testing.T) string {
	var all strings.Builder
	root := programtest.Root(t)
	for _, module := range []string{"registry", "relay", "shared", "deploy"} {
		err := filepath.WalkDir(filepath.Join(root, module), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			own := strings.Contains(file, "/e2e/") || strings.HasSuffix(path.Dir(file), "test") || strings.HasSuffix(file, "_test.go")
			if own && slices.Contains([]string{".go", ".py", ".mjs"}, path.Ext(file)) {
				all.WriteString(harness.Read(t, file))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// TestCompatibility: a row that CI is said to run names a version that CI installs and a program or package that a test uses, and
// any other row the month in which somebody ran it.
func TestCompatibility(t *testing.T) {
	pins, tests, ci := pinned(t), sources(t), 0
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
		version, _, _ = strings.Cut(version, " (")
		used := slices.ContainsFunc(words, func(word string) bool {
			return slices.ContainsFunc(pins[word], func(p pin) bool { return p.version == version && strings.Contains(tests, p.source) })
		})
		if !used {
			t.Errorf("%s %s: no test runs it, or neither tools/versions.txt nor a go.mod below relay/e2e pins this version", name, version)
		}
	}
	if ci < 20 {
		t.Errorf("only %d rows of CI", ci)
	}
}
