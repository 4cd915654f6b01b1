package api

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"slipway/registry/internal/auth"
	"slipway/registry/internal/maintenance/retention"
	"slipway/registry/internal/maintenance/schedule"
	"slipway/registry/internal/oci"
)

// verdictSize is about the bytes of a tag in an answer.
const verdictSize = 400

// job is a maintenance job of this process.
type job struct {
	Name      string    `json:"name"`
	Requested bool      `json:"requested"`      // a run hasn't begun yet
	Next      time.Time `json:"next,omitzero"`  // zero = only when asked
	Begun     time.Time `json:"begun,omitzero"` // of the run in progress, zero = none
	By        string    `json:"by,omitempty"`
	Progress  *progress `json:"progress,omitempty"`
	Last      *lastRun  `json:"last,omitempty"`
	Limits    string    `json:"limits,omitempty"`
}

// progress counts what the run has looked at since its phase began.
type progress struct {
	Phase        string `json:"phase"`
	Percent      int64  `json:"percent,omitempty"` // 0 = unknown
	Repositories int64  `json:"repositories"`
	Manifests    int64  `json:"manifests"`
	Blobs        int64  `json:"blobs"`
	Bytes        int64  `json:"bytes"`
}

// lastRun is the last run since the process started.
type lastRun struct {
	Ended   time.Time `json:"ended"`
	Seconds float64   `json:"seconds"`
	Failed  bool      `json:"failed"`
	Did     string    `json:"did"`
	Bytes   int64     `json:"bytes"`
	Kept    string    `json:"kept,omitempty"`
}

// jobRequest is the body of a request for a run.
type jobRequest struct {
	Plan string `json:"plan"`
}

// planAnswer is a plan with its ID.
type planAnswer struct {
	ID string `json:"id"`
	*retention.Plan
}

func (a *API) jobs() (all []*endpoint) {
	if a.opts.Board != nil {
		all = append(
			all,
			&endpoint{name: "jobs", path: "/_slipway/jobs", rows: []*row{{method: get, action: auth.Administer, only: (*request).administrator, handle: a.listJobs}}},
			&endpoint{name: "jobs", path: "/_slipway/jobs/{job:[^/]+}", last: "job", rows: []*row{{method: post, action: auth.Administer, only: (*request).administrator, handle: a.startJob, event: "maintenance"}}},
		)
	}
	if a.opts.Plan != nil {
		all = append(all, &endpoint{name: "retention", path: "/_slipway/retention", rows: []*row{{method: get, action: auth.Administer, only: (*request).administrator, handle: a.getPlan}}})
	}
	return all
}

// administrator returns why the caller doesn't administer the whole registry, nil if they do.
func (r *request) administrator() error {
	if r.grant == nil || r.grant.Administers(nil) {
		return nil
	}
	return oci.Explain(oci.CodeDenied, "this is for administrators of the whole registry")
}

func (a *API) listJobs(w http.ResponseWriter, r *request) error {
	list := []job{}
	for _, j := range a.opts.Board.Jobs() {
		row := job{Name: j.Name, Requested: j.Asked, Next: j.Next, Begun: j.Begun, By: j.By, Limits: j.Limits}
		if d := j.Done; d != nil {
			row.Progress = &progress{d.Phase(), d.Percent.Load(), d.Repositories.Load(), d.Manifests.Load(), d.Blobs.Load(), d.Bytes.Load()}
		}
		if !j.Ended.IsZero() {
			row.Last = &lastRun{j.Ended, j.Took.Seconds(), j.Failed, j.Did, j.Bytes, j.Kept}
		}
		list = append(list, row)
	}
	return writeJSON(w, r, http.StatusOK, map[string][]job{"jobs": list})
}

// startJob requests a run. Retention applies only a plan that the caller has seen.
func (a *API) startJob(w http.ResponseWriter, r *request) error {
	var q jobRequest
	if r.ContentLength != 0 {
		if err := a.decode(w, r, &q); err != nil {
			return err
		}
	}
	if r.last == schedule.RetentionApply && q.Plan == "" {
		return badRequest("look at the plan first, and give its ID as plan: only a plan that was shown is applied")
	}
	err := a.opts.Board.AskFor(r.last, cmp.Or(r.user, "anonymous"), q.Plan)
	switch {
	case errors.Is(err, schedule.ErrNoJob):
		return &statusError{http.StatusNotFound, oci.Explain(oci.CodeNameUnknown, err.Error())}
	case errors.Is(err, schedule.ErrRunning):
		return &statusError{http.StatusConflict, oci.Explain(oci.CodeDenied, "not started: "+r.last+" is running or about to run")}
	case err != nil:
		return err
	}
	return acceptedEmpty(w)
}

func (a *API) getPlan(w http.ResponseWriter, r *request) error {
	plan, err := a.opts.Plan(r.Context())
	switch {
	case errors.Is(err, retention.ErrBusy), errors.Is(err, retention.ErrTooLong):
		return oci.Explain(oci.CodeUnavailable, err.Error())
	case err != nil:
		return err
	}
	release, err := a.room(r, int64(len(plan.Verdicts))*verdictSize)
	if err != nil {
		return err
	}
	defer release()
	return writeJSON(w, r, http.StatusOK, planAnswer{plan.ID(), plan})
}
