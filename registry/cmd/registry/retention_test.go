package main

import (
	"bytes"
	"testing"

	"slipway/registry/internal/maintenance/retention"
)

// The plan names rules as the configuration and other messages do.
func TestPrintPlan_NamesRules(t *testing.T) {
	plan := &retention.Plan{
		Rules: 2, Deleted: 1, Kept: 1,
		Verdicts: []*retention.Verdict{
			{Repository: "ci/app", Tag: "b1", Delete: true, Rule: 2, Why: "pushed 9 days ago"},
			{Repository: "ci/app", Tag: "b2", Why: "no rule selects it"},
		},
	}
	var out bytes.Buffer
	if err := printPlan(&out, plan); err != nil {
		t.Fatal(err)
	}
	const want = `delete  ci/app:b1  rules[1]  pushed 9 days ago
keep    ci/app:b2  -         no rule selects it
1 tag would be deleted, 1 tag kept by rules
0 B in 0 blobs would become reclaimable; 0 B more are shared with content that stays
`
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A skipped repository isn't counted: its tags may be many, and all of them stay.
func TestPrintPlan_Skipped(t *testing.T) {
	var out bytes.Buffer
	if err := printPlan(&out, &retention.Plan{Rules: 1, Problems: []string{"web/app: dates"}}); err != nil {
		t.Fatal(err)
	}
	const want = `skipped: web/app: dates
0 tags would be deleted, 0 tags kept by rules; skipped repositories keep all their tags
0 B in 0 blobs would become reclaimable; 0 B more are shared with content that stays
`
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
