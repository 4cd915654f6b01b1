//go:build goolm

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFull_Alertmanager_Newest: the newest Alertmanager's webhooks, configured as our documentation says, and its own example for
// Gotify, are read, also with a summary that its payloads turn into an object.
func TestFull_Alertmanager_Newest(t *testing.T) {
	s := newSite(t)
	s.start()
	hook, gotify := s.application("hook", ""), s.application("gotify", "")
	const module = "alertmanager"
	program := filepath.Join(s.dir, module)
	s.run(module, "go", "build", "-o", program, ".")
	list := exec.CommandContext(s.ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/prometheus/alertmanager")
	list.Dir, list.Env = module, append(os.Environ(), "GOWORK=off")
	source, err := list.Output()
	s.must(err)
	example, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(source)), "examples", "webhook", "gotify.yml"))
	s.must(err)
	page, _ := s.alertmanagerPage()
	short := strings.NewReplacer("https://gotify.example.com", s.url, "credentials_file: /etc/alertmanager/secrets/gotify-secret/token", "credentials: "+gotify.token)
	before, _, _ := strings.Cut(string(example), "message: |")
	files := map[string]string{
		"hook.yml":    strings.NewReplacer("https://relay.example.org", s.url, "TOKEN", hook.token).Replace(page),
		"example.yml": short.Replace(string(example)),
		"object.yml":  short.Replace(before) + "message: '{{ .CommonAnnotations.summary }}'\n",
	}
	const summary = "Disk full: 95% used"
	send := func(file, state string) {
		t.Helper()
		path := filepath.Join(s.dir, file)
		s.must(os.WriteFile(path, []byte(files[file]), 0o600))
		s.run(s.dir, program, path, state, summary)
	}
	for _, state := range []string{"firing", "resolved"} {
		send("hook.yml", state)
		want := map[string]string{"firing": "Firing: ", "resolved": "Resolved: "}[state] + summary
		s.within(time.Minute, want, func() bool { return s.count(hook.room, want) > 0 })
	}
	send("example.yml", "firing")
	s.within(time.Minute, "the example's list", func() bool { return s.count(gotify.room, "• Instance: web1") == 1 })
	send("object.yml", "firing")
	s.within(time.Minute, "the summary that was an object", func() bool { return s.count(gotify.room, "FIRING DiskFull web1\n\n"+summary) == 1 })
}
