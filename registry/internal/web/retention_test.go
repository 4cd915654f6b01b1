package web

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"slipway/registry/internal/lastpull"
	"slipway/registry/internal/maintenance/retention"
	"slipway/registry/internal/maintenance/schedule"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
)

// TestRetention: those who administer the registry see what retention would delete, and nothing is deleted.
func TestRetention(t *testing.T) {
	var o retention.Options
	plan := func(ctx context.Context) (*retention.Plan, error) { return retention.Make(ctx, o) }
	var board schedule.Board
	s := newSite(t, keepDeleted, func(c *setup) { c.pages.Plan, c.pages.Board, o.Store = plan, &board, c.store })
	o.Registry, o.Pulls = s.rules, lastpull.NewFile(o.Store)
	o.Rules = []retention.Rule{{Repositories: pattern.MustNames([]string{"web/**"}), Tags: pattern.MustTags([]string{"ci-.*"}), Delete: true}}
	m := s.image("web/app", "v1", nil, "x")
	for i := range maxVerdicts + 3 {
		raw, err := s.rules.Repository("web/app").Peek(t.Context(), oci.Reference{Digest: m.Digest})
		if err == nil {
			_, err = s.rules.Repository("web/app").PutManifest(t.Context(), oci.Reference{Tag: oci.Tag(fmt.Sprintf("ci-%03d", i))}, raw.MediaType, raw.Bytes, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, who := range []string{"alice", "lead"} {
		b := s.as(who)
		b.get("/ui/retention")
		b.want(404, "-ci-")
	}
	b := s.as("owner")
	b.get("/ui/maintenance")
	b.want(200, `href="/ui/retention"`)
	b.get("/ui/retention")
	b.want(200, "503 tags would be deleted now", "web/app:ci-000<", "rules[0]", "3 more tags", "-web/app:v1<", "-Apply this plan")
	board.Plan(schedule.RetentionApply, 0)
	if b.get("/ui/maintenance"); strings.Count(b.page, `href="/ui/retention"`) != 1 {
		t.Errorf("not one link to the plan: %s", b.page)
	}
	b.get("/ui/retention")
	b.want(200, "Apply this plan", "can be restored for 2 days")
	if _, err := s.rules.Repository("web/app").Peek(t.Context(), oci.Reference{Tag: "ci-000"}); err != nil {
		t.Errorf("the plan has deleted a tag: %v", err)
	}

	// The run is requested for the plan that was shown.
	shown, err := plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.post("/ui/maintenance", "job", schedule.RetentionApply)
	b.want(400, "Look at the plan first")
	b.get("/ui/retention")
	b.want(200, `name="plan" value="`+shown.ID()+`"`)
	b.post("/ui/maintenance", "job", schedule.RetentionApply, "plan", shown.ID())
	if done := board.Begin(schedule.RetentionApply, <-board.Asked(schedule.RetentionApply)); done.Of != shown.ID() {
		t.Errorf("the run is for the plan %q, not %q", done.Of, shown.ID())
	}
}

// The page doesn't present the tags of a skipped repository as none.
func TestRetention_Skipped(t *testing.T) {
	s := newSite(t, func(c *setup) {
		c.pages.Plan = func(context.Context) (*retention.Plan, error) {
			return &retention.Plan{Rules: 1, Problems: []string{"web/app: dates"}}, nil
		}
	})
	b := s.as("owner")
	b.get("/ui/retention")
	b.want(200, "0 tags kept by rules; skipped repositories keep all their tags.", "Skipped: web/app: dates")
}
