// Package commandtest checks the commands of a program: their grammar, and the examples in their help.
package commandtest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// modeVariable makes a test binary the program: "run" runs it, "parse" only parses what it is given.
const modeVariable = "SLIPWAY_EXAMPLE"

// Program is a program whose examples are run.
type Program struct {
	Root func() *cobra.Command          // with all its commands
	Run  func(args []string) (code int) // as its main does
}

// Main runs the program in place of the tests where [Program.Examples] has started this process. TestMain calls it.
func (p Program) Main() {
	switch os.Getenv(modeVariable) {
	case "run":
		os.Exit(p.Run(os.Args[1:]))
	case "parse":
		_, _ = io.Copy(io.Discard, os.Stdin) // a pipe must not break
		if err := p.parse(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

func (p Program) parse(args []string) error {
	cmd, rest, err := p.Root().Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return err
	}
	return cmd.ValidateRequiredFlags()
}

// Examples checks that each command has two examples at least, and runs those of a command by a shell in a copy of dir,
// from the first to the last. Those of the commands in online need a server or more than dir has: they are parsed, with
// their flags and arguments. Paths that begin with a slash are taken below dir.
func (p Program) Examples(t *testing.T, dir string, online ...string) {
	t.Helper()
	root := p.Root()
	for _, name := range online {
		if _, rest, err := root.Find(strings.Fields(name)); err != nil || len(rest) > 0 {
			t.Errorf("there is no command %q", name)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, root.Name())); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("PASSWORD", "a long password")
	for _, cmd := range commands(root) {
		name := strings.TrimPrefix(cmd.CommandPath(), root.Name()+" ")
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			mode := "run"
			if slices.Contains(online, name) || !cmd.Runnable() || cmd.HasSubCommands() { // examples of those below have run
				mode = "parse"
			}
			runAll(t, root.Name()+" "+name, strings.Split(strings.TrimSpace(cmd.Example), "\n"), mode, dir)
		})
	}
}

// commands are all commands below one that its help lists.
func commands(root *cobra.Command) (all []*cobra.Command) {
	for _, cmd := range root.Commands() {
		if !cmd.Hidden && cmd.Name() != "help" && cmd.Name() != "completion" {
			all = append(append(all, cmd), commands(cmd)...)
		}
	}
	return all
}

var absolute = regexp.MustCompile(`(^|[ =:])/(etc|srv|var|run)/`)

func runAll(t *testing.T, path string, lines []string, mode, dir string) {
	t.Helper()
	if len(lines) < 2 {
		t.Fatalf("%d examples, want 2", len(lines))
	}
	work := filepath.Join(t.TempDir(), "work")
	if err := os.CopyFS(work, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if !strings.Contains(line, path) {
			t.Errorf("%s is no example of %s", line, path)
		}
		shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", absolute.ReplaceAllString(line, "$1$2/"))
		shell.Dir = work
		shell.Env = append(os.Environ(), modeVariable+"="+mode, "GORACE=atexit_sleep_ms=0") // a second at the end of each program
		if out, err := shell.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
}
