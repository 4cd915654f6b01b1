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
	cfg := &config.Config{Notifications: config.Notifications{Endpoints: []config.Endpoint{{Name: "new"}, {Name: "off", Disabled: true}, {Name: "down"}}}}
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	report := newEventsReport(cfg, "dir", []notify.Report{
		{Endpoint: "gone", File: "f", Serving: true, Backlog: notify.Backlog{Changes: 2}},
		{Endpoint: "off", File: "f", Serving: true},
		{Endpoint: "down", File: "f", State: notify.State{Failures: 3, Error: "answered 502 Bad Gateway", Since: since}},
	})
	var out strings.Builder
	if err := report.print(&out, time.Now()); err != nil {
		t.Fatal(err)
	}
	want := []string{"ENDPOINT", "gone", "off", "down", "new"}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(want) {
		t.Fatal(out.String())
	}
	for i, name := range want {
		if !strings.HasPrefix(lines[i], name+" ") {
			t.Errorf("line %d is %q, not of %s", i, lines[i], name)
		}
	}
	for i, state := range []string{
		"STATE", "not configured", "disabled",
		"answered 502 Bad Gateway (3 failures since 2026-01-02T03:04:05Z); no running registry sends them", "ok",
	} {
		if !strings.HasSuffix(lines[i], state) {
			t.Errorf("line %d is %q, want %q", i, lines[i], state)
		}
	}
}
