//go:build goolm

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/servertest"
	"slipway/shared/programtest"
)

// pullRequests posts GitHub's example events about a pull request, for two repositories in turns, and returns the number of pull
// requests that have messages.
func (s *site) pullRequests(a app) int {
	s.Helper()
	raw, err := os.ReadFile(filepath.Join(programtest.Root(s.T), ".tools", "webhooks-examples", "node_modules", "@octokit", "webhooks-examples", "api.github.com", "index.json"))
	s.must(err)
	var events []struct {
		Name     string            `json:"name"`
		Examples []json.RawMessage `json:"examples"`
	}
	s.must(json.Unmarshal(raw, &events))
	about := map[string]bool{}
	for _, e := range events {
		if !strings.HasPrefix(e.Name, "pull_request") {
			continue
		}
		for i := range 2 * len(e.Examples) {
			body := e.Examples[i/2]
			if i%2 == 1 {
				body = bytes.ReplaceAll(body, []byte("Codertocat/Hello-World"), []byte("team/shop"))
			}
			status, out := s.request(http.MethodPost, "/hook/github/"+a.token, body, func(r *http.Request) {
				r.Header.Set("X-GitHub-Event", e.Name)
				r.Header.Set("X-GitHub-Delivery", fmt.Sprint(e.Name, "-", i))
			})
			if status != http.StatusOK {
				s.Fatalf("%s: %d %v", e.Name, status, out)
			}
			if out["accepted"] == 1.0 {
				var in struct {
					Repository struct {
						FullName string `json:"full_name"`
					} `json:"repository"`
					PullRequest struct {
						Number int `json:"number"`
					} `json:"pull_request"`
				}
				s.must(json.Unmarshal(body, &in))
				about[fmt.Sprint(in.Repository.FullName, "#", in.PullRequest.Number)] = true
			}
		}
	}
	return len(about)
}

// flap posts a report of Alertmanager.
func (s *site) flap(a app, alert string, resolved bool, began time.Time) {
	s.Helper()
	report := object{"status": "firing", "labels": object{"alertname": alert, "severity": "warning"}, "annotations": object{"summary": alert}, "startsAt": began.Format(time.RFC3339Nano), "fingerprint": alert}
	if resolved {
		report["status"], report["endsAt"] = "resolved", began.Add(30*time.Second).Format(time.RFC3339Nano)
	}
	if status, out := s.request(http.MethodPost, "/hook/alertmanager/"+a.token, object{"version": "4", "alerts": []object{report}}, nil); status != http.StatusOK {
		s.Fatalf("alert: %d %v", status, out)
	}
}

// heads returns the messages of a room that are neither edits nor replies, and how many threads there are.
func heads(reader *servertest.Reader, room string) (messages []string, threads int) {
	roots := map[any]bool{}
	for _, e := range reader.Events(room) {
		relation, ok := e.Content["m.relates_to"].(map[string]any)
		if relation["rel_type"] == "m.thread" {
			roots[relation["event_id"]] = true
		}
		if text, isText := e.Content["body"].(string); isText && !ok {
			messages = append(messages, text)
		}
	}
	return messages, len(roots)
}

// A week of a team in one encrypted room, with a crash of the relay each day: alerts that flap, a job that floods, one that dies and
// comes back, and pull requests. Each time that an alert fires is one message, the flood two, and each pull request one thread.
func TestFull_WeekOfATeam(t *testing.T) {
	s := newSite(t)
	s.start()
	room, reader := s.sealedRoom()
	alerts, chatty, cron, github := s.application("alerts", room), s.application("chatty", room), s.application("cron", room), s.application("github", room)
	set := func(a app, settings object) {
		t.Helper()
		if status, out := s.ask(http.MethodPut, fmt.Sprint("/application/", a.id), settings); status != http.StatusOK {
			t.Fatalf("%v: %d %v", settings, status, out)
		}
	}
	set(alerts, object{"rate_limit": 10000})
	set(github, object{"rate_limit": 10000})
	set(chatty, object{"rate_limit": 10000, "digest": "1h"})
	set(cron, object{"heartbeat": "1m"})
	const kinds, days, times = 5, 7, 4
	began := time.Now().Add(-time.Hour)
	for day := range days {
		for range times {
			began = began.Add(time.Minute)
			for _, resolved := range []bool{false, true} {
				for n := range kinds {
					s.flap(alerts, fmt.Sprint("Alert", n), resolved, began)
				}
			}
		}
		for n := range 20 {
			s.say(chatty, fmt.Sprintf("line %d of day %d", n, day))
		}
		if day%2 == 0 { // on other days the relay dies with work to do
			s.within(3*time.Minute, "the day's messages are sent", func() bool { return !s.pending() })
		}
		s.kill()
		s.start()
	}
	pulls := s.pullRequests(github)
	holds := func(part string) func() bool {
		return func() bool {
			messages, _ := heads(reader, room)
			return slices.ContainsFunc(messages, func(m string) bool { return strings.Contains(m, part) })
		}
	}
	s.within(3*time.Minute, "the dead job has an alarm", holds("No heartbeat"))
	set(cron, object{"heartbeat": "1h"})
	s.post(cron, object{"message": "done", "key": "job"})
	s.within(2*time.Minute, "nothing waits any more", func() bool { return !s.pending() })
	s.eventually("the end of everything is read", func() bool {
		ends := []string{"The heartbeat is back", "\n\ndone", "139 more messages"}
		for n := range kinds {
			ends = append(ends, fmt.Sprintf("Resolved: Alert%d\n\n✅ Resolved after 30 s.", n))
		}
		return len(states(reader, room, ends...)) == len(ends)-kinds+kinds*days*times
	})
	messages, threads := heads(reader, room)
	for n := range kinds {
		name := fmt.Sprint("Alert", n)
		if got := len(slices.DeleteFunc(slices.Clone(messages), func(m string) bool { return !strings.Contains(m, name) })); got != days*times {
			t.Errorf("%s has %d messages", name, got)
		}
	}
	if len(messages) != kinds*days*times+2+2+pulls || threads != pulls || pulls < 2 {
		t.Errorf("%d threads of %d pull requests, %d messages: %q", threads, pulls, len(messages), messages)
	}
	if reader.Unread(room) != 0 {
		t.Errorf("%d events cannot be read", reader.Unread(room))
	}
}
