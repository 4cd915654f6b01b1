package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/servertest"
	"slipway/shared/programtest"
)

// patient is what a URL of Apprise ends with so that it waits a minute for an answer, not four seconds.
const patient = "?rto=60"

// TestSenders: programs made for other services send through the relay once their URL points here, are content with its
// answer, and their message is in the room once although the relay is killed before it is delivered.
func TestSenders(t *testing.T) {
	s := newSite(t)
	s.start()
	a := s.application("senders", "")
	strict := s.strictToken(a)
	s.proxy.Script(servertest.Rule{Path: "/send/", Fault: servertest.HangAfter()})
	var sent []string
	for _, tt := range []struct {
		name, program string
		args          []string
	}{
		{"ntfy by Apprise", "apprise", []string{"-t", "Title", "-b", "BODY", "ntfy://user:" + strict + "@" + s.addr + "/alerts" + patient + "&mode=private"}},
		{"Mattermost by Apprise", "apprise", []string{"-b", "BODY", "mmost://" + s.addr + "/" + strict + patient}},
		{"JSON by Apprise", "apprise", []string{"-t", "Title", "-b", "BODY", "json://" + s.addr + "/hook/generic/" + strict + patient}},
		{"Apprise's API by Apprise", "apprise", []string{"-t", "Title", "-b", "BODY", "apprise://" + s.addr + "/" + strict + patient}},
		{"ntfy by Shoutrrr", "shoutrrr", []string{"send", "--url", "ntfy://:" + strict + "@" + s.addr + "/alerts?scheme=http&title=Title", "--message", "BODY"}},
		{"Mattermost by Shoutrrr", "shoutrrr", []string{"send", "--url", "mattermost://" + s.addr + "/" + strict + "?disabletls=yes", "--message", "BODY"}},
		{"JSON by Shoutrrr", "shoutrrr", []string{"send", "--url", "generic://" + s.addr + "/hook/generic/" + strict + "?disabletls=yes&template=json", "--message", "BODY"}},
		{"ntfy by curl", "curl", []string{"-fsS", "-H", "Title: Title", "-d", "BODY", s.url + "/" + strict}},
		{"ntfy by curl, later", "curl", []string{"-fsS", "-H", "In: 11s", "-d", "BODY", s.url + "/" + strict}},
		{"Slack by curl", "curl", []string{"-fsS", "-H", "Content-Type: application/json", "-d", `{"text":"BODY"}`, s.url + "/services/T0/B0/" + strict}},
		{"Discord by curl", "curl", []string{"-fsS", "-H", "Content-Type: application/json", "-d", `{"content":"BODY"}`, s.url + "/api/webhooks/1/" + strict + "?wait=true"}},
		{"Teams by curl", "curl", []string{"-fsS", "-H", "Content-Type: application/json", "-d", `{"type":"message","attachments":[{"content":{"type":"AdaptiveCard","body":[{"type":"TextBlock","text":"BODY"}]}}]}`, s.url + "/workflows/w/triggers/manual/paths/invoke?sig=" + strict}},
		{"Pushover by curl", "curl", []string{"-fsS", "-F", "token=" + strict, "-F", "user=u", "-F", "message=BODY", s.url + "/1/messages.json"}},
		{"hookshot by curl", "curl", []string{"-fsS", "-X", "PUT", "-H", "Content-Type: application/json", "-d", `{"text":"BODY"}`, s.url + "/webhook/" + strict}},
		{"Uptime Kuma by curl", "curl", []string{"-fsS", "-H", "Content-Type: application/json", "-d", `{"heartbeat":{"status":0,"msg":"BODY","time":"2026-11-23 10:00:00"},"monitor":{"id":1,"name":"Shop"},"msg":"x"}`, s.url + "/hook/uptimekuma/" + strict}},
	} {
		body := "sent as " + tt.name
		for i := range tt.args {
			tt.args[i] = strings.ReplaceAll(tt.args[i], "BODY", body)
		}
		if out, err := exec.CommandContext(s.ctx, programtest.Tool(t, tt.program), tt.args...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s\n%s", tt.name, err, strings.ReplaceAll(string(out), strict, "TOKEN"), s.log())
			continue
		}
		sent = append(sent, body)
	}
	s.kill()
	s.proxy.Script()
	s.start()
	for _, body := range sent {
		s.eventually(body+" is in the room", func() bool { return s.count(a.room, body) > 0 })
	}
	if got := s.bodies(a.room); len(got) != len(sent) {
		t.Errorf("%d messages of %d: %q", len(got), len(sent), got)
	}
	if log := s.log(); strings.Contains(log, strict) {
		t.Error("the token is in the log")
	}
}

// log returns what the relay has logged.
func (s *site) log() string {
	s.Helper()
	log, err := os.ReadFile(filepath.Join(s.dir, "relay.log"))
	s.must(err)
	return string(log)
}

// count returns the number of messages in a room that hold a text.
func (s *site) count(room, text string) (n int) {
	s.Helper()
	for _, body := range s.bodies(room) {
		if strings.Contains(body, text) {
			n++
		}
	}
	return n
}

// posts returns how many requests of the Alertmanager at addr have reached its webhook receivers, and how many have failed.
func (s *site) posts(addr string) (arrived, failed int) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, "http://"+addr+"/metrics", http.NoBody)
	s.must(err)
	resp, err := s.http.Do(req)
	s.must(err)
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	s.must(err)
	for _, m := range alertmanagerPosts.FindAllStringSubmatch(string(page), -1) {
		n, err := strconv.Atoi(m[2])
		s.must(err)
		if m[1] == "" {
			arrived = n
		} else {
			failed = n
		}
	}
	return arrived - failed, failed
}

var alertmanagerPosts = regexp.MustCompile(`(?m)^alertmanager_notification_requests(_failed)?_total\{integration="webhook"\} (\d+)$`)

// TestAlertmanager_Webhook: Alertmanager, configured as the documentation says, posts an alert while the relay is down, at its
// start and at its end; it is read once each. Its receivers for Slack and Discord arrive, too.
func TestAlertmanager_Webhook(t *testing.T) {
	s := newSite(t)
	s.start()
	hook, slack, discord := s.application("hook", ""), s.application("slack", ""), s.application("discord", "")
	addr := programtest.FreeAddr(t)
	yaml, command := s.alertmanagerPage()
	local := strings.NewReplacer("https://relay.example.org", s.url, "TOKEN", hook.token, "{receiver: relay}", "{receiver: relay, group_wait: 0s, group_interval: 1s, repeat_interval: 1s}", "localhost:9093", addr)
	config := filepath.Join(s.dir, "alertmanager.yml")
	s.must(os.WriteFile(config, fmt.Appendf(nil, `%s    slack_configs: [{api_url: "%s/services/T0/B0/%s", channel: "#ops"}]
    discord_configs: [{webhook_url: "%s/api/webhooks/1/%s"}]
`, local.Replace(yaml), s.url, slack.token, s.url, discord.token), 0o600))
	s.runs("prometheus-alertmanager", "--config.file="+config, "--storage.path="+s.dir, "--web.listen-address="+addr, "--cluster.listen-address=")
	fire := func(more string) {
		s.eventually("Alertmanager takes the alert", func() bool {
			return exec.CommandContext(s.ctx, "sh", "-c", strings.TrimSpace(local.Replace(command))+more).Run() == nil
		})
	}
	s.kill()
	fire("")
	s.eventually("Alertmanager finds nobody", func() bool { _, failed := s.posts(addr); return failed > 0 })
	s.start()
	s.within(3*time.Minute, "the alert is read", func() bool { return s.count(hook.room, "Firing: It works") > 0 })
	s.kill()
	s.start()
	arrived, _ := s.posts(addr)
	s.eventually("Alertmanager repeats the alert, which makes no message", func() bool { now, _ := s.posts(addr); return now >= arrived+2 })
	fire(" --end=" + time.Now().UTC().Format(time.RFC3339))
	s.within(3*time.Minute, "the end is read", func() bool { return s.count(hook.room, "Resolved: It works") > 0 })
	if got := s.bodies(hook.room); len(got) != 2 {
		t.Errorf("%q", got)
	}
	for _, a := range []app{slack, discord} {
		s.within(3*time.Minute, "the alert is read", func() bool { return s.count(a.room, "Test") > 0 })
	}
}

// alertmanagerPage returns the configuration of Alertmanager that the documentation shows, and the command that sends an alert.
func (s *site) alertmanagerPage() (yaml, command string) {
	s.Helper()
	page, err := os.ReadFile(filepath.Join(programtest.Root(s.T), "docs", "relay", "connect-services.md"))
	s.must(err)
	_, section, _ := strings.Cut(string(page), "\n## Alertmanager\n")
	_, rest, _ := strings.Cut(section, "```yaml\n")
	yaml, rest, _ = strings.Cut(rest, "```\n")
	_, rest, _ = strings.Cut(rest, "```sh\n")
	command, _, found := strings.Cut(rest, "```\n")
	if !found {
		s.Fatal("the page has no configuration of Alertmanager")
	}
	return yaml, command
}

// TestFull_GitHub_Payloads: each of the payloads that GitHub's own libraries are tested with is taken, signed and under its
// delivery's id, also by a relay that is killed between them; a second delivery makes no second message.
func TestFull_GitHub_Payloads(t *testing.T) {
	s := newSite(t)
	s.start()
	a := s.application("github", "")
	const secret = "It's a Secret to Everybody"
	if status, out := s.ask(http.MethodPut, fmt.Sprint("/application/", a.id), object{"hook_secret": secret, "rate_limit": 10000}); status != http.StatusOK {
		t.Fatalf("hook_secret: %d %v", status, out)
	}
	raw, err := os.ReadFile(filepath.Join(programtest.Root(t), ".tools", "webhooks-examples", "node_modules", "@octokit", "webhooks-examples", "api.github.com", "index.json"))
	s.must(err)
	var events []struct {
		Name     string            `json:"name"`
		Examples []json.RawMessage `json:"examples"`
	}
	s.must(json.Unmarshal(raw, &events))
	posted, accepted := 0, 0
	deliver := func(event, delivery string, body []byte) object {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		status, out := s.request(http.MethodPost, "/hook/github/"+a.token, json.RawMessage(body), func(r *http.Request) {
			r.Header.Set("X-GitHub-Event", event)
			r.Header.Set("X-GitHub-Delivery", delivery)
			r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		})
		if status != http.StatusOK {
			t.Fatalf("%s %s: %d %v", event, delivery, status, out)
		}
		return out
	}
	for _, e := range events {
		for i, body := range e.Examples {
			compact, err := json.Marshal(body) // as request sends it
			s.must(err)
			out := deliver(e.Name, fmt.Sprint(e.Name, "-", i), compact)
			if posted++; posted%100 == 0 {
				s.kill()
				s.start()
			}
			if n, _ := out["accepted"].(float64); n == 1 {
				accepted++
				if again := deliver(e.Name, fmt.Sprint(e.Name, "-", i), compact); again["repeated"] != 1.0 {
					t.Errorf("%s %d again: %v", e.Name, i, again)
				}
			}
		}
	}
	if posted < 300 || accepted < 100 {
		t.Errorf("%d payloads, %d messages", posted, accepted)
	}
	s.within(10*time.Minute, "all are read", func() bool { return len(s.bodies(a.room)) >= accepted })
	got := s.bodies(a.room)
	if len(got) != accepted || !slices.ContainsFunc(got, func(b string) bool {
		return strings.Contains(b, "Codertocat opened #2 Update the README with new information.")
	}) {
		t.Errorf("%d messages of %d", len(got), accepted)
	}
}
