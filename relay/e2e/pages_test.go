package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

// TestPages: the examples of the documentation that need a relay run against one, from the top of a page to its end, and
// what they send arrives.
func TestPages(t *testing.T) {
	t.Parallel()
	for page, sends := range map[string]int{"send-messages": 9, "send-from-programs": 3, "connect-services": 8, "alerts": 4, "templates": 0, "users-and-tokens": 0, "rooms": 0, "migrate-from-gotify": 1, "migrate-from-ntfy": 2, "first-alert": 2, "read-with-gotify": 0} {
		t.Run(page, func(t *testing.T) {
			s := newSite(t)
			s.start()
			a := s.application("pages", "")
			if page == "alerts" {
				for _, name := range []string{"backup", "alertmanager"} { // which its examples name
					s.application(name, a.room)
				}
			}
			if page == "templates" {
				s.application("deploys", a.room)
			}
			for _, example := range examplesOf(t, page) {
				s.runExample(a, example)
			}
			s.eventually("all messages have arrived", func() bool { return !s.undelivered() })
			_, out := s.ask(http.MethodGet, "/message?state=sent,redacted", nil)
			if list, _ := out["messages"].([]any); len(list) != sends {
				t.Errorf("the examples sent %d messages, want %d", len(list), sends)
			}
		})
	}
}

// example is a block of a page that can be run.
type example struct{ line, lang, text string }

// examplesOf are the blocks of Python and Go, and those of shell commands below "<!-- run: relay/e2e -->".
func examplesOf(t *testing.T, page string) (all []example) {
	t.Helper()
	file := filepath.Join(programtest.Root(t), "docs", "relay", page+".md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?ms)^ *(<!-- run: relay/e2e -->\n)? *```(sh|python|go)\n(.*?)^ *```$")
	for _, m := range block.FindAllSubmatchIndex(text, -1) {
		e := example{lang: string(text[m[4]:m[5]]), text: string(text[m[6]:m[7]])}
		e.line = fmt.Sprintf("%s.md:%d", page, 1+strings.Count(string(text[:m[6]]), "\n"))
		if marked := m[2] >= 0; marked || e.lang != "sh" {
			all = append(all, e)
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no examples", file)
	}
	return all
}

// runExample runs an example with the address and token that the page takes for granted.
func (s *site) runExample(a app, e example) {
	s.Helper()
	dir := s.TempDir()
	file := map[string]string{"sh": "report", "python": "example.py", "go": "main.go"}[e.lang]
	s.must(os.WriteFile(filepath.Join(dir, file), []byte(e.text), 0o700))
	var args []string
	switch {
	case e.lang == "python":
		args = []string{"python3", file}
	case e.lang == "go":
		args = []string{"go", "run", file}
	case strings.HasPrefix(e.text, "#!"): // a script for others to call
		args = []string{"bash", "-c", "./report ls /nowhere; [ $? = 2 ]"}
	default:
		local := strings.NewReplacer("gotifys://relay.example.org", "gotify://"+s.addr, "--wait 10s", "--wait 5m") // a busy machine takes longer
		args = []string{"bash", "-euo", "pipefail", "-c", local.Replace(e.text)}
	}
	s.must(os.Symlink(relayBinary, filepath.Join(dir, "relay")))
	s.must(os.Symlink(programtest.Tool(s.T, "apprise"), filepath.Join(dir, "apprise")))
	cmd := exec.CommandContext(s.ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "RELAY_URL="+s.url, "RELAY_TOKEN="+a.token, "RELAY_CONFIG="+filepath.Join(s.dir, "relay.yml"),
		"MATRIX_PASSWORD="+botPassword, "ADMIN_PASSWORD="+adminPassword, "ID=1", "GOWORK=off", "GOFLAGS=-trimpath") // what is compiled that way is there already
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Errorf("%s: %v\n%s", e.line, err, strings.ReplaceAll(string(out), a.token, "TOKEN"))
	}
}
