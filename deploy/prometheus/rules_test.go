// Package prometheus_test holds the rules against promtool and against what the
// built services export.
package prometheus_test

import (
	"path/filepath"
	"regexp"
	"testing"

	"go.yaml.in/yaml/v3"

	"slipway/tools/harness"
	"slipway/tools/metrics"
)

var files = []string{"registry.rules.yml", "relay.rules.yml"}

// Prometheus takes the rules and the example. Each file of rules is the one of a
// chart, not another one.
func TestPromtoolCheck(t *testing.T) {
	harness.Run(t, "promtool", append([]string{"check", "rules", "--lint=all", "--lint-fatal"}, files...)...)
	harness.Run(t, "promtool", "check", "config", "prometheus.example.yml")
	if copies := harness.Run(t, "find", ".", "-name", "*.rules.yml", "-not", "-type", "l"); copies != "" {
		t.Errorf("these must be links to the files of the charts: %s", copies)
	}
}

// expected is the alert that a test wants.
var expected = regexp.MustCompile(`alertname: (\w+),?\s+eval_time: \w+,?\s+exp_alerts:( \[\])?`)

// The alerts fire when they should and are silent when not; each one is tried.
// Every metric and label in a rule is one that the services export.
func TestRules(t *testing.T) {
	tests, _ := filepath.Glob("*.test.yml")
	harness.Run(t, "promtool", append([]string{"test", "rules"}, tests...)...)
	tried := map[string]bool{} // alert, and " []" where it is silent
	for _, file := range tests {
		for _, m := range expected.FindAllStringSubmatch(harness.Read(t, file), -1) {
			tried[m[1]+m[2]] = true
		}
	}
	series := metrics.Export(t)
	for _, file := range files {
		var content struct {
			Groups []struct {
				Rules []struct{ Alert, Record, Expr string }
			}
		}
		if err := yaml.Unmarshal([]byte(harness.Read(t, file)), &content); err != nil {
			t.Fatal(err)
		}
		var recorded []string // by this group or one above it
		for _, group := range content.Groups {
			for _, r := range group.Rules {
				recorded = append(recorded, r.Record)
				if r.Alert != "" && (!tried[r.Alert] || !tried[r.Alert+" []"]) {
					t.Errorf("no test makes %s fire, or none leaves it silent", r.Alert)
				}
				for _, problem := range series.Check(r.Expr, recorded) {
					t.Errorf("%s%s: %s", r.Alert, r.Record, problem)
				}
			}
		}
	}
}
