package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

// library is a process that sends with the library of a service: each line that it gets, until it is content.
type library struct {
	name    string
	lines   io.Writer
	answers *bufio.Scanner
}

func (s *site) library(name string, cmd *exec.Cmd) *library {
	s.Helper()
	in, err := cmd.StdinPipe()
	s.must(err)
	out, err := cmd.StdoutPipe()
	s.must(err)
	cmd.Stderr = os.Stderr
	s.must(cmd.Start())
	s.Cleanup(func() {
		in.Close()
		_ = cmd.Wait() // it ends with its input
	})
	return &library{name: name, lines: in, answers: bufio.NewScanner(out)}
}

// says sends a line with a library, and fails the test if the library isn't content.
func (l *library) says(s *site, line string) {
	s.Helper()
	if _, err := fmt.Fprintln(l.lines, line); err != nil {
		s.Fatalf("%s: %v", l.name, err)
	}
	if !l.answers.Scan() || l.answers.Text() != "ok" {
		s.Errorf("%s: %q, %v", l.name, l.answers.Text(), l.answers.Err())
	}
}

// libraries starts the libraries that people send with.
func (s *site) libraries(token string) []*library {
	s.Helper()
	root := filepath.Join(programtest.Root(s.T), ".tools")
	build := exec.CommandContext(s.ctx, "go", "build", "-o", filepath.Join(s.dir, "clients"), ".")
	build.Dir = "clients"
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		s.Fatalf("build the clients: %v\n%s", err, out)
	}
	var all []*library
	for _, name := range []string{"slack", "pushover", "gotify", "ntfy", "teams"} {
		all = append(all, s.library(name+" in Python", exec.CommandContext(s.ctx, programtest.Tool(s.T, "python-clients"), "clients/clients.py", name, s.url, token)))
	}
	for _, name := range []string{"pushover", "gotify", "slack", "discord"} {
		all = append(all, s.library(name+" in Go", exec.CommandContext(s.ctx, filepath.Join(s.dir, "clients"), name, s.url, token)))
	}
	for _, name := range []string{"slack", "discord"} {
		node := exec.CommandContext(s.ctx, "node", "clients/clients.mjs", name, s.url, token)
		node.Env = append(os.Environ(), "NODE_CLIENTS="+filepath.Join(root, "node-clients"))
		all = append(all, s.library(name+" in Node", node))
	}
	return all
}

// TestLibraries: the libraries of other services send through the relay once their server is this one, and their
// messages are in the room once although the relay is killed between their requests.
func TestLibraries(t *testing.T) {
	s := newSite(t)
	s.start()
	a := s.application("libraries", "")
	if status, out := s.ask(http.MethodPut, fmt.Sprint("/application/", a.id), object{"token_form": "pushover", "rate_limit": 10000}); status != http.StatusOK {
		t.Fatalf("token_form: %d %v", status, out)
	}
	all := s.libraries(a.token)
	const rounds = 2
	for round := range rounds {
		for _, l := range all {
			l.says(s, fmt.Sprintf("round %d of %s", round, l.name))
		}
		s.kill()
		s.start()
	}
	for round := range rounds {
		for _, l := range all {
			text := fmt.Sprintf("round %d of %s", round, l.name)
			s.eventually(text+" is in the room", func() bool { return s.count(a.room, text) > 0 })
		}
	}
	if got := s.bodies(a.room); len(got) != rounds*len(all) {
		t.Errorf("%d messages of %d:\n%s", len(got), rounds*len(all), strings.Join(got, "\n"))
	}
	discord := all[len(all)-1]
	discord.says(s, "edit round 1 is edited")
	s.kill()
	s.start()
	s.eventually("the edit is in the room", func() bool { return s.count(a.room, "round 1 is edited") > 0 })
	discord.says(s, "delete")
	s.eventually("the message is gone", func() bool { return s.count(a.room, "round 1 of "+discord.name) == 0 })
}
