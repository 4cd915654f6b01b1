package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

var blockHere = regexp.MustCompile("(?s)<!-- not run: deploy/e2e does -->\n```sh\n(.*?)```")

// The commands of docs/docker.md that need no other machine are run as they stand.
func checkPage(t *testing.T, s *stack) {
	s.compose(t, "down")
	page, err := os.ReadFile(filepath.Join(programtest.Root(t), "docs", "docker.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := blockHere.FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 3 {
		t.Fatalf("only %d blocks to run", len(blocks))
	}
	if out, err := s.engine.run(t, command{name: "make", args: append([]string{"image"}, s.env...), env: s.env}); err != nil {
		t.Fatalf("make image: %v\n%s", err, tail(out))
	}
	for _, b := range blocks {
		script := strings.ReplaceAll(b[1], "docker build ", "docker build --build-arg "+strings.Join(s.env, " --build-arg ")+" ")
		if out, err := s.engine.run(t, command{name: "sh", args: []string{"-euc", script}}); err != nil {
			t.Fatalf("%s\n%v\n%s", script, err, tail(out))
		}
		s.waitAnswerTo(t, b[1])
	}
	s.engine.push(t, "localhost:5000/page:1")
	s.engine.pull(t, "localhost:5000/page:1")
}

// waitAnswerTo waits for the registry if the block started one.
func (s *stack) waitAnswerTo(t *testing.T, block string) {
	t.Helper()
	if strings.Contains(block, "docker run -d") || strings.Contains(block, "docker start") {
		s.waitAnswer(t)
	}
}
