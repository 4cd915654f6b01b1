package e2e

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// relay runs a command of the binary next to the site's relay and returns what
// it prints and its exit code.
func (s *site) relay(args ...string) (output string, code int) {
	s.Helper()
	out, err := s.command(args...).CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		s.Fatal(err)
	}
	if failed != nil {
		code = failed.ExitCode()
	}
	return string(out), code
}

func (s *site) says(code int, texts []string, args ...string) string {
	s.Helper()
	out, got := s.relay(args...)
	if got != code {
		s.Fatalf("relay %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, code, out)
	}
	for _, text := range texts {
		if !strings.Contains(out, text) {
			s.Errorf("relay %s does not say %q:\n%s", strings.Join(args, " "), text, out)
		}
	}
	return out
}

// TestCommands: from nothing to a message in the room with the commands alone,
// and what the doctor says on the way.
func TestCommands(t *testing.T) {
	s := newSite(t)
	file := s.configure()
	s.says(0, []string{"The homeserver answers.", "the bot is " + s.botID}, "doctor", "--config", file) // none runs
	s.start()
	lines := strings.Split(strings.TrimSpace(s.says(0, nil, "app", "create", "shell", "-q", "--config", file)), "\n")
	token := lines[len(lines)-1] // a warning may be above it, if the homeserver is slow
	s.says(0, []string{" sent $"}, "send", "--url", s.url, "--token", token, "--wait", "5m", "-t", "Title", "from the **shell**")
	s.says(0, []string{"The database can be written to.", "(shell), which is not encrypted, and may write there."}, "doctor", "--config", file)
	s.says(0, []string{"green (database green, matrix green)"}, "health", "--config", file)

	if out, _ := s.relay("app", "create", "unknown", "--room", "#nowhere:localhost", "--config", file); strings.Count(out, "does not know the alias") != 1 {
		t.Errorf("of an alias that nobody knows it says:\n%s", out)
	}
	s.says(0, nil, "app", "delete", "unknown", "--yes", "--config", file)
	room, err := s.owner.CreateRoom(s.ctx, "without the bot", nil, nil)
	s.must(err)
	s.says(0, []string{"warning: The bot is not in the room " + room + " (outside): invite it"}, "app", "create", "outside", "--room", room, "--config", file)
	s.says(1, []string{"BAD  The bot is not in the room " + room + " (outside): invite it, or give", "1 of"}, "doctor", "--config", file)
	s.must(s.owner.Invite(s.ctx, room, s.botID))
	s.eventually("the bot joins and the doctor is content", func() bool {
		_, code := s.relay("doctor", "--config", file)
		return code == 0
	})
	s.must(s.owner.SetState(s.ctx, room, "m.room.power_levels", map[string]any{"events_default": 50}))
	s.says(1, []string{"BAD  The bot may not write in the room " + room}, "doctor", "--config", file)
}
