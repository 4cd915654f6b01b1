package web

import (
	"errors"
	"net/http"
	"time"

	"slipway/registry/internal/maintenance/retention"
	"slipway/registry/internal/maintenance/schedule"
	ui "slipway/shared/web"
)

const (
	maxVerdicts = 500 // tags that the page of the plan shows
	maxProblems = 20
)

type retentionPage struct {
	frame
	Plan     *retention.Plan // nil = it takes too long
	ID       string          // of the plan
	Verdicts []*retention.Verdict
	Problems []string
	Left     int           // tags that go and the page leaves out
	Applies  bool          // a button applies the rules
	Keep     time.Duration // what goes can be restored, 0 = it can't
}

// getRetention shows what retention would delete now, to administrators.
func (web *Web) getRetention(w http.ResponseWriter, v *visit) error {
	if web.o.Plan == nil || !web.administers(v) {
		return errNoPage
	}
	p := retentionPage{frame: web.frame(v, "maintenance", "Retention plan"), Applies: !web.o.RetentionDryRun && web.offers(v, schedule.RetentionApply), Keep: web.o.KeepDeleted}
	plan, err := web.o.Plan(v.Context())
	if errors.Is(err, retention.ErrBusy) {
		return &refusal{http.StatusServiceUnavailable, ui.Sentence(err.Error())}
	}
	if err != nil && !errors.Is(err, retention.ErrTooLong) {
		return err
	}
	if err == nil {
		p.Plan, p.ID, p.Problems = plan, plan.ID(), plan.Problems[:min(len(plan.Problems), maxProblems)]
		for _, verdict := range plan.Verdicts {
			if verdict.Delete && len(p.Verdicts) < maxVerdicts {
				p.Verdicts = append(p.Verdicts, verdict)
			}
		}
		p.Left = plan.Deleted - len(p.Verdicts)
	}
	return web.pages.Show(w, http.StatusOK, "retention", p)
}
