package docs_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"slipway/deploy/internal/harness"
	"slipway/shared/programtest"
)

var (
	alertName = regexp.MustCompile("`(R[A-Za-z]+)`")
	alertRule = regexp.MustCompile(`(?s)- alert: (\w+)\n(.*?)\n\n`)
	runbook   = regexp.MustCompile(`runbook_url: (\S+)`)
)

// TestRunbooks: the runbook_url of each alert is the section of the docs that docs/monitor.md names for it first, and
// that section is there.
func TestRunbooks(t *testing.T) {
	root, anchors, want := programtest.Root(t), anchorsOf(pages(t)), map[string]string{}
	for row := range strings.Lines(readPage(t, "docs/monitor.md").prose) {
		names, rest, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		for _, name := range alertName.FindAllStringSubmatch(names, -1) {
			if link := linkTo.FindStringSubmatch(rest); link != nil {
				want[name[1]] = "docs/" + link[1]
			}
		}
	}
	count := 0
	for _, service := range []string{"registry", "relay"} {
		rules := harness.Read(t, filepath.Join(root, "deploy", "prometheus", service+".rules.yml")) + "\n\n"
		for _, rule := range alertRule.FindAllStringSubmatch(rules, -1) {
			count++
			url := runbook.FindStringSubmatch(rule[2])
			if url == nil || url[1] != want[rule[1]] {
				t.Errorf("%s: runbook_url is %q, and docs/monitor.md names %q", rule[1], url, want[rule[1]])
				continue
			}
			if file, anchor, _ := strings.Cut(url[1], "#"); anchors[file] == nil || anchor != "" && !slices.Contains(anchors[file], anchor) {
				t.Errorf("%s: runbook_url %s leads nowhere", rule[1], url[1])
			}
		}
	}
	if count == 0 || count != len(want) {
		t.Errorf("%d alerts, and docs/monitor.md has %d", count, len(want))
	}
}
