package docs_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"slipway/deploy/internal/harness"
	"slipway/shared/programtest"
)

var (
	background = regexp.MustCompile(`^in the background until (\S+) answers$`)
	shows      = regexp.MustCompile(`^shows: ([^']+)$`)
)

// TestMarks: a block of commands has no mark or one that is understood.
func TestMarks(t *testing.T) {
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang != "sh" || b.note == "" || background.MatchString(b.note) || shows.MatchString(b.note) {
				continue
			}
			if reason, ok := strings.CutPrefix(b.note, "not run: "); !ok || len(reason) < 10 {
				t.Errorf("%s:%d: %q is no mark of a block; see page_test.go", b.page, b.line, b.note)
			}
		}
	}
}

// TestRun runs the commands of each page from top to bottom as one shell
// session, in a copy of the repository, with a network, processes and /etc,
// /var/lib, /srv, /usr/local/bin of its own, so that the ports and paths are
// those that the page says. What a page takes for granted is in
// testdata/<page>.sh.
func TestRun(t *testing.T) {
	for _, p := range pages(t) {
		script, steps := session(t, p)
		if steps == 0 {
			continue
		}
		t.Run(p.path, func(t *testing.T) { runSession(t, script) })
	}
}

// session is the script that runs a page's blocks, and how many those are.
func session(t *testing.T, p page) (script string, steps int) {
	t.Helper()
	var out strings.Builder
	here := filepath.Join(programtest.Root(t), "deploy", "docs", "testdata")
	fmt.Fprintf(&out, ". %s/lib.sh\n", here)
	slug := strings.ReplaceAll(strings.TrimSuffix(p.path, ".md"), "/", "-")
	if fixture := filepath.Join(here, slug+".sh"); exists(fixture) {
		fmt.Fprintf(&out, ". %s\n", fixture)
	}
	for _, b := range p.blocks {
		if b.lang != "sh" || strings.HasPrefix(b.note, "not run: ") {
			continue
		}
		steps++
		fmt.Fprintf(&out, "echo ':::' %s:%d >&2\n", b.page, b.line)
		if m := background.FindStringSubmatch(b.note); m != nil {
			fmt.Fprintf(&out, "{\n%s} >$work/background.%d 2>&1 &\nawait %s $work/background.%d\n", b.text, b.line, m[1], b.line)
			continue
		}
		out.WriteString(shown(b))
	}
	return out.String(), steps
}

// shown is the block, and behind it a search for each text that its output is
// said to have.
func shown(b block) string {
	m := shows.FindStringSubmatch(b.note)
	if m == nil {
		return b.text
	}
	var out strings.Builder
	fmt.Fprintf(&out, "{\n%s} >$work/shown 2>&1 || { cat $work/shown; exit 1; }\ncat $work/shown\n", b.text)
	for text := range strings.SplitSeq(m[1], "; ") {
		fmt.Fprintf(&out, "grep -qF -- '%s' $work/shown || { echo 'it does not show: %s' >&2; exit 1; }\n", text, text)
	}
	return out.String()
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func runSession(t *testing.T, script string) {
	root, work := programtest.Root(t), t.TempDir()
	copied := filepath.Join(work, "slipway")
	harness.Run(t, "bash", "-c", `mkdir "$1" && cd "$0" && git ls-files -co --exclude-standard -z | tar -c --null -T - --ignore-failed-read 2>/dev/null | tar -x -C "$1" && ln -sfn "$0/.tools" "$1/.tools"`, root, copied)
	bin := filepath.Join(work, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"registry", "relay"} {
		if err := os.Symlink(harness.Binary(t, name), filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = copied
	cmd.Env = append(os.Environ(), "work="+work, "PATH="+bin+":"+filepath.Join(root, ".tools", "bin")+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		text := string(out)
		if len(text) > 6000 {
			text = "…" + text[len(text)-6000:]
		}
		t.Errorf("%v; the block is the one behind the last :::\n%s", err, text)
	}
}
