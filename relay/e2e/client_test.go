package e2e

import (
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

// strictToken makes the application's token one of the short form, and returns it.
func (s *site) strictToken(a app) string {
	s.Helper()
	path := fmt.Sprint("/application/", a.id)
	if status, out := s.ask(http.MethodPut, path, object{"strict_compatibility": true}); status != http.StatusOK {
		s.Fatalf("strict_compatibility: %d %v", status, out)
	}
	status, out := s.ask(http.MethodPost, path+"/token", nil)
	if status != http.StatusOK {
		s.Fatalf("new token: %d %v", status, out)
	}
	return out.text("token")
}

// TestClientsOfGotify: programs that were made for Gotify's server send through
// the relay unchanged, and are content with its answer. Shoutrrr is what
// Watchtower and Beszel send with; it refuses any other form of token.
func TestClientsOfGotify(t *testing.T) {
	s := newSite(t)
	s.start()
	a := s.application("clients", "")
	long := a.token
	tests := []struct {
		name, token, body, msgtype string
		args                       func(token string) []string
	}{
		{"apprise", long, "[high] Backup\n\nfrom *Apprise*, high", "m.text", func(token string) []string {
			return []string{"-t", "Backup", "-b", "from *Apprise*, high", "-i", "markdown", "gotify://" + s.addr + "/" + token + patient + "&priority=high"}
		}},
		{"curl", long, "[low] Server\n\nas Unraid's agent does", "m.notice", func(token string) []string {
			return []string{"-fsS", "-F", "title=Server", "-F", "message=as Unraid's agent does", "-F", "priority=1", s.url + "/message?token=" + token}
		}},
		{"shoutrrr", "", "Update\n\nfrom **Shoutrrr**", "m.text", func(token string) []string {
			return []string{"send", "--url", "gotify://" + s.addr + "/" + token + "?disabletls=yes&title=Update&priority=5", "--message", "from **Shoutrrr**"}
		}},
	}
	var want []string
	for _, tt := range tests {
		if tt.token == "" {
			tt.token = s.strictToken(a)
		}
		if out, err := exec.CommandContext(s.ctx, programtest.Tool(t, tt.name), tt.args(tt.token)...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", tt.name, err, strings.ReplaceAll(string(out), tt.token, "TOKEN"))
		}
		want = append(want, tt.body)
		s.arrives(a.room, want...)
		events := s.events(a.room)
		if got := events[len(events)-1].Field("msgtype"); got != tt.msgtype {
			t.Errorf("%s: msgtype %s, want %s", tt.name, got, tt.msgtype)
		}
	}
}

// TestClientOfGotifyLearnsOfARefusal: a wrong token ends a sender with a failure.
func TestClientOfGotifyLearnsOfARefusal(t *testing.T) {
	s := newSite(t)
	s.start()
	wrong := "gotify://" + s.addr + "/AbcdefghijKLmno"
	for name, args := range map[string][]string{
		"apprise":  {"-b", "nothing", wrong},
		"shoutrrr": {"send", "--url", wrong + "?disabletls=yes", "--message", "nothing"},
	} {
		if out, err := exec.CommandContext(s.ctx, programtest.Tool(t, name), args...).CombinedOutput(); err == nil {
			t.Errorf("%s is content:\n%s", name, out)
		}
	}
}
