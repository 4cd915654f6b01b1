package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestAddresses: each address that a service's senders use takes their shape, answers with the status that they expect, and its
// message is in the room.
func TestAddresses(t *testing.T) {
	s := newSite(t)
	s.start()
	a := s.application("addresses", "")
	if status, out := s.ask(http.MethodPut, fmt.Sprint("/application/", a.id), object{"rate_limit": 10000}); status != http.StatusOK {
		t.Fatalf("rate_limit: %d %v", status, out)
	}
	const card = `{"type":"message","attachments":[{"contentType":"application/vnd.microsoft.card.adaptive","content":{"type":"AdaptiveCard","body":[{"type":"TextBlock","text":"TEXT"}]}}]}`
	const alert = `{"version":"4","alerts":[{"status":"firing","labels":{"alertname":"TEXT"},"startsAt":"2026-01-02T03:04:05Z","fingerprint":"TEXT"}]}`
	const push = `{"ref":"refs/heads/main","commits":[{"id":"0123456789","message":"TEXT"}],"sender":{"login":"ann"},"repository":{"full_name":"o/r"}}`
	bearer := "Authorization: Bearer " + a.token
	sent := map[string]string{} // text by path
	for i, tt := range []struct {
		method, path, body, header string
		status                     int
	}{
		{"POST", "/TOKEN", "TEXT", "", 200},
		{"PUT", "/alerts", "TEXT", bearer, 200},
		{"GET", "/TOKEN/publish?message=TEXT", "", "", 200},
		{"GET", "/ntfy/TOKEN/trigger?m=TEXT", "", "", 200},
		{"PUT", "/", `{"topic":"TOKEN","message":"TEXT"}`, "", 200},
		{"POST", "/ntfy", `{"topic":"TOKEN","message":"TEXT"}`, "", 200},
		{"POST", "/message", `{"message":"TEXT","priority":"5"}`, "X-Gotify-Key: " + a.token, 200},
		{"POST", "/message?token=TOKEN", `{"message":"TEXT"}`, "", 200},
		{"POST", "/1/messages.json", "token=TOKEN&user=u&message=TEXT", "Content-Type: application/x-www-form-urlencoded", 200},
		{"POST", "/hook/slack/TOKEN", `{"text":"TEXT"}`, "", 200},
		{"POST", "/services/T0LAB/B0LAB/TOKEN", "payload=%7B%22text%22%3A%22TEXT%22%7D", "Content-Type: application/x-www-form-urlencoded", 200},
		{"POST", "/hooks/TOKEN", `{"text":"TEXT"}`, "", 200},
		{"POST", "/hooks/1/TOKEN", `{"text":"TEXT"}`, "", 200},
		{"POST", "/api/webhooks/1/TOKEN", `{"content":"TEXT"}`, "", 204},
		{"POST", "/api/v10/webhooks/1/TOKEN?wait=true", `{"content":"TEXT"}`, "", 200},
		{"POST", "/api/webhooks/1/TOKEN/slack", `{"text":"TEXT"}`, "", 200},
		{"POST", "/api/webhooks/1/TOKEN/github", push, "X-GitHub-Event: push", 200},
		{"POST", "/hook/teams/TOKEN", card, "", 202},
		{"POST", "/workflows/lab/triggers/manual/paths/invoke?api-version=1&sig=TOKEN", card, "", 202},
		{"POST", "/hook/alertmanager", alert, bearer, 200},
		{"POST", "/alert?token=TOKEN", alert, "", 200},
		{"PUT", "/hook/grafana", alert, bearer, 200},
		{"POST", "/hook/github/TOKEN", push, "X-GitHub-Event: push", 200},
		{"POST", "/hook/gitea/TOKEN", push, "X-Gitea-Event: push", 200},
		{"POST", "/hook/gitlab", `{"object_kind":"push","ref":"refs/heads/main","after":"bb","user_name":"Ann","commits":[{"id":"0123456789","message":"TEXT"}]}`, "X-Gitlab-Token: " + a.token, 200},
		{"POST", "/hook/generic", `{"message":"TEXT"}`, bearer, 200},
		{"PUT", "/hook/generic/TOKEN", `{"unknown":"TEXT"}`, "", 200},
		{"POST", "/webhook/TOKEN", `{"text":"TEXT"}`, "", 202},
		{"POST", "/api/v1/matrix/hook/TOKEN", `{"text":"TEXT","displayName":"x"}`, "", 202},
		{"POST", "/notify/TOKEN", `{"body":"TEXT","type":"info"}`, "", 200},
		{"POST", "/hook/uptimekuma/TOKEN", `{"heartbeat":{"status":0,"msg":"TEXT"},"monitor":{"id":1,"name":"m"}}`, "", 200},
		{"POST", "/hook/healthchecks/TOKEN", `{"name":"TEXT","status":"down","code":"c"}`, "", 200},
		{"POST", "/hook/sonarr/TOKEN", `{"eventType":"Health","message":"TEXT"}`, "", 200},
		{"POST", "/hook/registry", `{"events":[{"id":"1","action":"push","target":{"repository":"TEXT","tag":"1","digest":"sha256:0123456789abcdef"}}]}`, bearer, 200},
	} {
		text := fmt.Sprintf("address%dof", i)
		fill := strings.NewReplacer("TOKEN", a.token, "TEXT", text)
		req, err := http.NewRequestWithContext(s.ctx, tt.method, s.url+fill.Replace(tt.path), strings.NewReader(fill.Replace(tt.body)))
		s.must(err)
		if name, value, found := strings.Cut(tt.header, ": "); found {
			req.Header.Set(name, value)
		}
		resp, err := s.http.Do(req)
		s.must(err)
		resp.Body.Close()
		if resp.StatusCode != tt.status {
			t.Errorf("%s %s: %d, want %d", tt.method, tt.path, resp.StatusCode, tt.status)
			continue
		}
		sent[tt.path] = text
	}
	s.eventually("all are in the room", func() bool { return len(s.bodies(a.room)) >= len(sent) })
	for path, text := range sent {
		if n := s.count(a.room, text); n != 1 {
			t.Errorf("%s: %d messages", path, n)
		}
	}
	if log := s.log(); strings.Contains(log, a.token) {
		t.Error("the token is in the log")
	}
}
