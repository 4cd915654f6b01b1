// Package grafana_test holds the dashboards against promtool and what the built
// services export.
package grafana_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"slipway/tools/harness"
	"slipway/tools/metrics"
)

// panel is the part of Grafana's model that the tests check.
type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               struct{ UID string }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	GridPos                  struct{ X, Y, W, H int }
	Targets                  []struct {
		RefID, Expr    string
		Datasource     struct{ UID string }
		Range, Instant bool
	}
}

// variables are the values that Grafana inserts.
var variables = regexp.MustCompile(`\$(__rate_interval|job|namespace|instance)`)

// chosen begins every selector: releases in other namespaces have dashboards of their own.
const chosen = `{job=~"$job", namespace=~"$namespace", instance=~"$instance"`

// Every panel asks the chosen data source, describes what it shows and lies over no
// other one. Every query is PromQL of metrics and labels that are exported.
func TestDashboards(t *testing.T) {
	series := metrics.Export(t)
	checkNothingIsForgotten(t, series)
	var rules []map[string]string
	for _, service := range []string{"registry", "relay"} {
		var dashboard struct {
			UID    string
			Panels []panel
		}
		if err := json.Unmarshal([]byte(harness.Read(t, service+".json")), &dashboard); err != nil || dashboard.UID != "slipway-"+service {
			t.Fatalf("%s: uid %q, %v", service, dashboard.UID, err)
		}
		for i, p := range dashboard.Panels {
			for _, other := range dashboard.Panels[:i] {
				if a, b := p.GridPos, other.GridPos; p.ID == other.ID || a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
					t.Errorf("%s: %q and %q have the same place or id", service, p.Title, other.Title)
				}
			}
			if p.Type != "row" && (p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}") {
				t.Errorf("%s: panel %d %q: title, description, unit, a query and the chosen data source are needed", service, p.ID, p.Title)
			}
			for _, q := range p.Targets {
				if q.Datasource.UID != "${datasource}" || q.Range == q.Instant {
					t.Errorf("%s, %s: query %s asks %q", service, p.Title, q.RefID, q.Datasource.UID)
				}
				rules = append(rules, map[string]string{"record": fmt.Sprintf("%s:%d:%s", service, p.ID, q.RefID), "expr": variables.ReplaceAllString(q.Expr, "5m")})
				if strings.Count(q.Expr, "{") != strings.Count(q.Expr, chosen) {
					t.Errorf("%s, %s: %s shows more than what is chosen at the top", service, p.Title, q.Expr)
				}
				for _, problem := range series.Check(q.Expr, nil) {
					t.Errorf("%s, %s: %s", service, p.Title, problem)
				}
			}
		}
	}
	if len(rules) < 60 {
		t.Errorf("only %d queries", len(rules))
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "panels", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	harness.Run(t, "promtool", "check", "rules", harness.Write(t, filepath.Join(t.TempDir(), "panels.yml"), string(text)))
}

// checkNothingIsForgotten: every metric of a service has its panel or its alert, or is named here.
func checkNothingIsForgotten(t *testing.T, series metrics.Series) {
	used := "registry_verify_blobs registry_verify_bytes registry_verify_runs_total " + // the log tells them in a line each
		"registry_gc_duration_seconds registry_retention_runs_total registry_notifications_queue_bytes " +
		"registry_storage_cache_total registry_proxy_pushed_bytes_total registry_proxy_requests_total" // distribution's, for its dashboards
	for _, file := range []string{"registry.json", "relay.json", "../prometheus/registry.rules.yml", "../prometheus/relay.rules.yml"} {
		used += harness.Read(t, file)
	}
	for name := range series {
		name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"), "_sum")
		if (strings.HasPrefix(name, "registry_") || strings.HasPrefix(name, "relay_")) && !strings.Contains(used, name) {
			t.Errorf("no panel and no alert has %s", name)
		}
	}
}
