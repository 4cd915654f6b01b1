// Package prometheus_test holds the rules against promtool and against what the
// built services export.
package prometheus_test

import (
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"

	"slipway/deploy/internal/harness"
	"slipway/deploy/internal/metrics"
)

var files = []string{"registry.rules.yml", "relay.rules.yml"}

// Prometheus takes the rules and the example. Each file of rules is the one of a
// chart, not another one.
func TestPromtoolCheck(t *testing.T) {
	harness.Run(t, "promtool", append([]string{"check", "rules", "--lint=all", "--lint-fatal"}, files...)...)
	harness.Run(t, "promtool", "check", "config", "prometheus.example.yml")
	for _, file := range files {
		if to, err := os.Readlink(file); err != nil {
			t.Errorf("%s must be a link to the file of the chart, not a copy: %v (%s)", file, err, to)
		}
	}
}

// The alerts fire when they should and are silent when not; each one is tried.
// Every metric and label in a rule is one that the services export.
func TestRules(t *testing.T) {
	tests, err := filepath.Glob("*.test.yml")
	if err != nil {
		t.Fatal(err)
	}
	harness.Run(t, "promtool", append([]string{"test", "rules"}, tests...)...)
	fired, silent := map[string]bool{}, map[string]bool{}
	for _, file := range tests {
		var content struct {
			Tests []struct {
				Rules []struct {
					Name   string `yaml:"alertname"`
					Alerts []any  `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			}
		}
		load(t, file, &content)
		for _, test := range content.Tests {
			for _, r := range test.Rules {
				fired[r.Name] = fired[r.Name] || len(r.Alerts) > 0
				silent[r.Name] = silent[r.Name] || len(r.Alerts) == 0
			}
		}
	}
	series := metrics.Export(t)
	for _, file := range files {
		var content struct {
			Groups []struct {
				Rules []struct{ Alert, Record, Expr string }
			}
		}
		load(t, file, &content)
		var recorded []string
		for _, group := range content.Groups {
			for _, r := range group.Rules {
				recorded = append(recorded, r.Record)
			}
		}
		for _, group := range content.Groups {
			for _, r := range group.Rules {
				if r.Alert != "" && (!fired[r.Alert] || !silent[r.Alert]) {
					t.Errorf("no test makes %s fire, or none leaves it silent", r.Alert)
				}
				for _, problem := range series.Check(r.Expr, recorded) {
					t.Errorf("%s%s: %s", r.Alert, r.Record, problem)
				}
			}
		}
	}
}

func load(t *testing.T, path string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(harness.Read(t, path)), into); err != nil {
		t.Fatal(err)
	}
}
