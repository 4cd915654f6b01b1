package programtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// durableDir is the variable by which WantDurable gives the directory to its other process.
const durableDir = "PROGRAMTEST_DURABLE"

// WantDurable runs write, which makes files in a directory, in a process of its own under strace. The test fails unless
// each file gets its name after its bytes are flushed, and its directory is flushed afterwards: only then a power loss leaves
// the old file or the new one.
func WantDurable(t *testing.T, write func(dir string) error, files ...string) {
	t.Helper()
	if dir := os.Getenv(durableDir); dir != "" {
		if err := write(dir); err != nil {
			t.Fatal(err)
		}
		return
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := exec.CommandContext(t.Context(), Tool(t, "strace"), "-f", "-y", "-o", trace, "-e", "trace=fsync,fdatasync,rename,renameat,renameat2", os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), durableDir+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, Tail(string(out)))
	}
	calls, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		path := filepath.Join(dir, name)
		m := regexp.MustCompile(`rename.*"(.*)".*"` + regexp.QuoteMeta(path) + `"`).FindSubmatchIndex(calls)
		if m == nil {
			t.Errorf("%s isn't made by renaming a file", name)
			continue
		}
		before, from, after := string(calls[:m[0]]), string(calls[m[2]:m[3]]), string(calls[m[1]:])
		if !strings.Contains(before, "<"+from+">") {
			t.Errorf("%s gets its name before its bytes are flushed", name)
		}
		if !strings.Contains(after, "<"+filepath.Dir(path)+">") {
			t.Errorf("the name of %s isn't flushed", name)
		}
	}
}
