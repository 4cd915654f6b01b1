// Package grafana_test holds the dashboards against Grafana's model, promtool and
// what the built services export.
package grafana_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"slipway/deploy/internal/harness"
	"slipway/deploy/internal/metrics"
)

var services = []string{"registry", "relay"}

// dashboard is as much of Grafana's model (schema version 39) as the dashboards
// use. They are read strictly, so a misspelt field is an error.
type dashboard struct {
	UID           string            `json:"uid"`
	Title         string            `json:"title"`
	Description   string            `json:"description"`
	Tags          []string          `json:"tags"`
	SchemaVersion int               `json:"schemaVersion"`
	Version       int               `json:"version"`
	Editable      bool              `json:"editable"`
	GraphTooltip  int               `json:"graphTooltip"`
	Refresh       string            `json:"refresh"`
	Time          map[string]string `json:"time"`
	Timezone      string            `json:"timezone"`
	Templating    struct {
		List []struct {
			Name       string          `json:"name"`
			Label      string          `json:"label"`
			Type       string          `json:"type"`
			Query      json.RawMessage `json:"query"`
			Definition string          `json:"definition"`
			Datasource *datasource     `json:"datasource"`
			Refresh    int             `json:"refresh"`
			IncludeAll bool            `json:"includeAll"`
			Multi      bool            `json:"multi"`
			AllValue   string          `json:"allValue"`
			Current    json.RawMessage `json:"current"`
		} `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type panel struct {
	ID          int         `json:"id"`
	Type        string      `json:"type"`
	Title       string      `json:"title"`
	Description string      `json:"description"`
	Datasource  *datasource `json:"datasource"`
	Collapsed   bool        `json:"collapsed"`
	Panels      []panel     `json:"panels"`
	GridPos     grid        `json:"gridPos"`
	FieldConfig struct {
		Defaults struct {
			Unit       string          `json:"unit"`
			Decimals   int             `json:"decimals"`
			Min        *float64        `json:"min"`
			Color      json.RawMessage `json:"color"`
			Custom     json.RawMessage `json:"custom"`
			Thresholds json.RawMessage `json:"thresholds"`
			Mappings   json.RawMessage `json:"mappings"`
		} `json:"defaults"`
		Overrides []any `json:"overrides"`
	} `json:"fieldConfig"`
	Options json.RawMessage `json:"options"`
	Targets []target        `json:"targets"`
}

type grid struct{ X, Y, W, H int }

type target struct {
	RefID        string      `json:"refId"`
	Datasource   *datasource `json:"datasource"`
	Expr         string      `json:"expr"`
	LegendFormat string      `json:"legendFormat"`
	Range        bool        `json:"range"`
	Instant      bool        `json:"instant"`
}

// The dashboards are whole: they ask the chosen data source, every panel says
// what it shows, and none lies over another.
func TestDashboards(t *testing.T) {
	for _, service := range services {
		d := read(t, service)
		if d.UID != "slipway-"+service || d.SchemaVersion != 39 || len(d.Templating.List) != 2 || d.Templating.List[0].Type != "datasource" {
			t.Errorf("%s: uid %q, schema %d, %d variables", service, d.UID, d.SchemaVersion, len(d.Templating.List))
		}
		taken, ids := map[[2]int]string{}, map[int]bool{}
		for _, p := range d.Panels {
			if ids[p.ID] {
				t.Errorf("%s: the id %d is there twice", service, p.ID)
			}
			ids[p.ID] = true
			checkPlace(t, p, taken)
			if p.Type != "row" {
				checkPanel(t, p)
			}
		}
	}
}

func checkPlace(t *testing.T, p panel, taken map[[2]int]string) {
	t.Helper()
	g := p.GridPos
	if g.W < 1 || g.H < 1 || g.X+g.W > 24 {
		t.Errorf("%s: %+v is not on the grid", p.Title, g)
	}
	for x := g.X; x < g.X+g.W; x++ {
		for y := g.Y; y < g.Y+g.H; y++ {
			if other := taken[[2]int{x, y}]; other != "" {
				t.Fatalf("%s lies over %s", p.Title, other)
			}
			taken[[2]int{x, y}] = p.Title
		}
	}
}

func checkPanel(t *testing.T, p panel) {
	t.Helper()
	chosen := datasource{Type: "prometheus", UID: "${datasource}"}
	if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 || p.Datasource == nil || *p.Datasource != chosen {
		t.Errorf("panel %d %q: title, description, unit, a query and the chosen data source are needed", p.ID, p.Title)
	}
	if p.Type != "stat" && p.Type != "timeseries" {
		t.Errorf("%s: type %s", p.Title, p.Type)
	}
	refs := map[string]bool{}
	for _, q := range p.Targets {
		if refs[q.RefID] || q.Datasource == nil || *q.Datasource != chosen || q.Range == q.Instant {
			t.Errorf("%s: query %s", p.Title, q.RefID)
		}
		refs[q.RefID] = true
	}
}

// Every query is PromQL, and every metric and label in it is exported.
func TestQueries(t *testing.T) {
	series := metrics.Export(t)
	type rule struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var rules []rule
	for _, service := range services {
		for _, p := range read(t, service).Panels {
			for _, q := range p.Targets {
				rules = append(rules, rule{fmt.Sprintf("%s:%d:%s", service, p.ID, q.RefID), variables.ReplaceAllString(q.Expr, "5m")})
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
	file := filepath.Join(t.TempDir(), "panels.yml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	harness.Run(t, "promtool", "check", "rules", file)
}

// variables are what Grafana puts in.
var variables = regexp.MustCompile(`\$(__rate_interval|instance)`)

// Every metric of a service has its panel or its alert, or is named here.
func TestNothingIsForgotten(t *testing.T) {
	unseen := map[string]bool{
		"registry_verify_blobs": true, "registry_verify_bytes": true, "registry_verify_runs_total": true, // the log tells them in a line each
		"registry_gc_duration_seconds": true, "registry_retention_runs_total": true, "registry_notifications_queue_bytes": true,
	}
	var used strings.Builder
	for _, file := range []string{"registry.json", "relay.json", "../prometheus/registry.rules.yml", "../prometheus/relay.rules.yml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		used.Write(text)
	}
	for name := range metrics.Export(t) {
		name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"), "_sum")
		if (strings.HasPrefix(name, "registry_") || strings.HasPrefix(name, "relay_")) && !unseen[name] && !strings.Contains(used.String(), name) {
			t.Errorf("no panel and no alert has %s", name)
		}
	}
}

func read(t *testing.T, service string) dashboard {
	t.Helper()
	text, err := os.ReadFile(service + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		t.Fatalf("%s: %v", service, err)
	}
	return d
}
