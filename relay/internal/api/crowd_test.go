package api

import (
	"fmt"
	"strings"
	"testing"

	"slipway/relay/internal/protocol/webhook"
)

// A large group of alerts has one message, from its start to its end, beside those of alerts that had one before.
func TestManyAlerts(t *testing.T) {
	w := newWorldFor(t, nil, webhook.Alertmanager())
	token := w.app(named("a")).Token
	report := func(from, to int, status, start string) reply {
		t.Helper()
		var list []string
		for i := from; i < to; i++ {
			list = append(list, fmt.Sprintf(`{"status":%q,"labels":{"alertname":"Down","instance":"web-%03d"},"startsAt":"2026-11-23T%s:00Z","fingerprint":"f%d"}`, status, i, start, i))
		}
		r := w.ask("POST", "/hook/alertmanager/"+token, `{"version":"4","groupKey":"g","groupLabels":{"alertname":"Down"},"alerts":[`+strings.Join(list, ",")+`]}`, isJSON)
		w.want("report", r, 200)
		return r
	}
	titles := func(what string, want ...string) {
		t.Helper()
		r := w.manage("GET", "/message?limit=200", "")
		got := ""
		for _, m := range r.fields["messages"].([]any) {
			got = fmt.Sprint(m.(map[string]any)["title"]) + "\n" + got
		}
		if got != strings.Join(want, "\n")+"\n" {
			t.Errorf("%s:\n%swant\n%s", what, got, strings.Join(want, "\n"))
		}
	}
	w.want("two", report(0, 2, "firing", "10:00"), 200, "accepted", 2., "repeated", 0.)
	titles("two", "Firing: Down", "Firing: Down")
	w.want("many", report(0, 100, "firing", "10:00"), 200, "accepted", 1., "repeated", 2.)
	titles("many", "Firing: Down", "Firing: Down", "Firing: 100 alerts of Down")
	report(0, 5, "firing", "10:00")
	titles("few are left", "Firing: Down", "Firing: Down", "Firing: 5 alerts of Down")
	report(0, 5, "resolved", "10:00")
	titles("over", "Resolved: Down", "Resolved: Down", "Resolved: 5 alerts of Down")
	report(7, 8, "firing", "11:00")
	titles("one later", "Resolved: Down", "Resolved: Down", "Resolved: 5 alerts of Down", "Firing: Down")
	w.want("it fires again, its end was lost", report(7, 8, "firing", "12:00"), 200, "accepted", 1.)
	titles("again", "Resolved: Down", "Resolved: Down", "Resolved: 5 alerts of Down", "Firing: Down", "Firing: Down")
	if open := w.manage("GET", "/alert", ""); strings.Count(open.body, `"open":true`) != 1 {
		t.Errorf("open are %s", open.body)
	}
}
