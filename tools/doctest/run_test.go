package doctest_test

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

	"slipway/shared/programtest"
	"slipway/tools/harness"
)

var (
	background = regexp.MustCompile(`^in the background until (\S+) answers$`)
	shows      = regexp.MustCompile(`^shows: ([^']+)$`)
)

// TestRun runs the commands of README.md and docs/install.md from top to bottom, each page as one shell session, in a copy of the
// repository, with a network, processes and /etc, /var/lib, /srv, /usr/local/bin, /usr/local/share of its own, so that ports and paths
// are those of the page. A script in testdata prepares it.
func TestRun(t *testing.T) {
	for path, prepare := range map[string]string{"README.md": "engine.sh", "docs/install.md": "release.sh"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			runPage(t, path, prepare)
		})
	}
}

// The quick start explains the commands of README.md, and adds few.
func TestFull_Run_QuickStart(t *testing.T) { runPage(t, "docs/quick-start.md", "engine.sh") }

// Stand-ins for Let's Encrypt and Docker Hub are at the places of the page's.
func TestFull_Run_Team(t *testing.T) { runPage(t, "docs/registry/team.md", "team.sh") }

func runPage(t *testing.T, path, prepare string) {
	t.Helper()
	runSession(t, "here=tools/doctest/testdata\n. $here/lib.sh\n. $here/"+prepare+"\n"+session(t, readPage(t, path)))
}

// session is the script that runs a page's blocks.
func session(t *testing.T, p page) string {
	t.Helper()
	var out strings.Builder
	steps := 0
	for _, b := range p.blocks {
		reason, skipped := strings.CutPrefix(b.note, "not run: ")
		if b.lang != "sh" || skipped && len(reason) > 10 {
			continue
		}
		steps++
		fmt.Fprintf(&out, "echo '::: %s:%d' >&2\n", b.page, b.line)
		if m := background.FindStringSubmatch(b.note); m != nil {
			fmt.Fprintf(&out, "{\n%s} >$work/background.%d 2>&1 &\nawait %s $work/background.%d\n", b.text, b.line, m[1], b.line)
		} else if m := shows.FindStringSubmatch(b.note); m != nil {
			fmt.Fprintf(&out, "{\n%s} >$work/shown 2>&1 || { cat $work/shown; exit 1; }\ncat $work/shown\n", b.text)
			for text := range strings.SplitSeq(m[1], "; ") {
				fmt.Fprintf(&out, "grep -qF -- '%s' $work/shown || { echo 'it does not show: %s' >&2; exit 1; }\n", text, text)
			}
		} else if b.note != "" {
			t.Errorf("%s:%d: %q is no comment of a block; see page_test.go", b.page, b.line, b.note)
		} else {
			out.WriteString(b.text)
		}
	}
	if steps == 0 {
		t.Errorf("%s has no commands to run", p.path)
	}
	return out.String()
}

func runSession(t *testing.T, script string) {
	root, work := programtest.Root(t), t.TempDir()
	copied, bin := filepath.Join(work, "slipway"), filepath.Join(work, "bin")
	const copyAll = `mkdir "$1" "$2" && ln -s "$3" "$4" "$2" && cd "$0" &&
git ls-files -co --exclude-standard -z | tar -c --null -T - --ignore-failed-read 2>/dev/null | tar -x -C "$1" && ln -sfn "$0/.tools" "$1/.tools"`
	harness.Run(t, "bash", "-c", copyAll, root, copied, bin, harness.Binary(t, "registry"), harness.Binary(t, "relay"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = copied
	cmd.Env = append(os.Environ(), "work="+work, "PATH="+bin+":"+filepath.Join(root, ".tools", "bin")+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v; the block is the one behind the last :::\n%s", err, programtest.Tail(string(out)))
	}
}
