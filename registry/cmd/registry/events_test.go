package main

import (
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/config"
	"slipway/registry/internal/notify"
)

// The report lists the endpoints of the queues and those of the configuration.
func TestEventsReport(t *testing.T) {
	cfg := &config.Config{Notifications: config.Notifications{Endpoints: []config.Endpoint{{Name: "new"}, {Name: "off", Disabled: true}}}}
	report := newEventsReport(cfg, "dir", []notify.Report{
		{Endpoint: "gone", File: "f", Serving: true, Backlog: notify.Backlog{Changes: 2}},
		{Endpoint: "off", File: "f", Serving: true},
	})
	var out strings.Builder
	if err := report.print(&out, time.Now()); err != nil {
		t.Fatal(err)
	}
	want := []string{"ENDPOINT", "gone", "off", "new"}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(want) {
		t.Fatal(out.String())
	}
	for i, name := range want {
		if !strings.HasPrefix(lines[i], name+" ") {
			t.Errorf("line %d is %q, not of %s", i, lines[i], name)
		}
	}
	if !strings.HasSuffix(lines[1], "not configured") || !strings.HasSuffix(lines[2], "disabled") || !strings.HasSuffix(lines[3], "ok") {
		t.Error(out.String())
	}
}
