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

var services = []string{"registry", "relay"}

// rules is a file of rules.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct{ Alert, Record, Expr string }
	}
}

// Prometheus takes the rules and the example.
func TestPromtoolCheck(t *testing.T) {
	harness.Run(t, "promtool", "check", "rules", "--lint=all", "--lint-fatal", "registry.rules.yml", "relay.rules.yml")
	harness.Run(t, "promtool", "check", "config", "prometheus.example.yml")
}

// The alerts fire when they should and are silent when not; each one is tried.
func TestPromtoolTest(t *testing.T) {
	files, err := filepath.Glob("*.test.yml")
	if err != nil {
		t.Fatal(err)
	}
	harness.Run(t, "promtool", append([]string{"test", "rules"}, files...)...)
	fired, silent := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		var tests struct {
			Tests []struct {
				Rules []struct {
					Name   string `yaml:"alertname"`
					Alerts []any  `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			}
		}
		load(t, file, &tests)
		for _, test := range tests.Tests {
			for _, r := range test.Rules {
				fired[r.Name] = fired[r.Name] || len(r.Alerts) > 0
				silent[r.Name] = silent[r.Name] || len(r.Alerts) == 0
			}
		}
	}
	for _, service := range services {
		for _, group := range read(t, service).Groups {
			for _, r := range group.Rules {
				if r.Alert != "" && (!fired[r.Alert] || !silent[r.Alert]) {
					t.Errorf("no test makes %s fire, or none leaves it silent", r.Alert)
				}
			}
		}
	}
}

// Every metric and label in a rule is one that the services export.
func TestRulesNameWhatIsExported(t *testing.T) {
	series := metrics.Export(t)
	for _, service := range services {
		var recorded []string
		for _, group := range read(t, service).Groups {
			for _, r := range group.Rules {
				if r.Record != "" {
					recorded = append(recorded, r.Record)
				}
			}
		}
		for _, group := range read(t, service).Groups {
			for _, r := range group.Rules {
				for _, problem := range series.Check(r.Expr, recorded) {
					t.Errorf("%s%s: %s", r.Alert, r.Record, problem)
				}
			}
		}
	}
}

// The charts bring the same rules.
func TestChartsHaveTheRules(t *testing.T) {
	for _, service := range services {
		name := service + ".rules.yml"
		ours, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := os.ReadFile(filepath.Join("..", "charts", service, "files", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(ours) != string(theirs) {
			t.Errorf("deploy/charts/%s/files/%s is another file than deploy/prometheus/%s; copy it", service, name, name)
		}
	}
}

func read(t *testing.T, service string) rules {
	t.Helper()
	var r rules
	load(t, service+".rules.yml", &r)
	return r
}

func load(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}
