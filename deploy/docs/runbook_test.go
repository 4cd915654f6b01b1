package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"slipway/shared/programtest"
)

var alertName = regexp.MustCompile("`(R[A-Za-z]+)`")

// TestRunbooks: the runbook_url of each alert is the section of the docs that docs/monitor.md names for it first, and
// that section is there.
func TestRunbooks(t *testing.T) {
	root := programtest.Root(t)
	monitor, err := os.ReadFile(filepath.Join(root, "docs", "monitor.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for row := range strings.Lines(string(monitor)) {
		names, rest, found := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		link := linkTo.FindStringSubmatch(rest)
		if !found || link == nil {
			continue
		}
		for _, name := range alertName.FindAllStringSubmatch(names, -1) {
			want[name[1]] = "docs/" + link[1]
		}
	}
	anchors, count := anchorsOf(pages(t)), 0
	for _, service := range []string{"registry", "relay"} {
		text, err := os.ReadFile(filepath.Join(root, "deploy", "prometheus", service+".rules.yml"))
		if err != nil {
			t.Fatal(err)
		}
		var content struct {
			Groups []struct {
				Rules []struct {
					Alert       string
					Annotations map[string]string
				}
			}
		}
		if err := yaml.Unmarshal(text, &content); err != nil {
			t.Fatal(err)
		}
		for _, group := range content.Groups {
			for _, rule := range group.Rules {
				if rule.Alert == "" {
					continue
				}
				count++
				runbook := rule.Annotations["runbook_url"]
				file, anchor, _ := strings.Cut(runbook, "#")
				if runbook == "" || runbook != want[rule.Alert] {
					t.Errorf("%s: runbook_url is %q, and docs/monitor.md names %q", rule.Alert, runbook, want[rule.Alert])
				}
				if anchors[file] == nil || anchor != "" && !slices.Contains(anchors[file], anchor) {
					t.Errorf("%s: runbook_url %s leads nowhere", rule.Alert, runbook)
				}
			}
		}
	}
	if count != len(want) {
		t.Errorf("%d alerts, and docs/monitor.md has %d", count, len(want))
	}
}
