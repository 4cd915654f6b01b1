package doctest_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"slipway/shared/programtest"
	"slipway/tools/harness"
)

var alertRule = regexp.MustCompile(`(?s)- alert: (\w+)\n(.*?)(?: runbook_url: docs/(([^#\s]+)#?(\S*)))?\n\n`)

// TestRunbooks: the runbook_url of each alert is a page of the docs, and a heading there.
func TestRunbooks(t *testing.T) {
	anchors := anchorsOf(pages(t))
	for _, service := range []string{"registry", "relay"} {
		rules := harness.Read(t, filepath.Join(programtest.Root(t), "deploy", "prometheus", service+".rules.yml")) + "\n\n"
		found := alertRule.FindAllStringSubmatch(rules, -1)
		for _, m := range found {
			headings := anchors["docs/"+m[4]]
			if headings == nil || m[5] != "" && !slices.Contains(headings, m[5]) {
				t.Errorf("%s: its runbook_url, docs/%s, leads nowhere", m[1], m[3])
			}
		}
		if n := strings.Count(rules, "- alert: "); n == 0 || n != len(found) {
			t.Errorf("%d of %d alerts of the %s were read", len(found), n, service)
		}
	}
}
