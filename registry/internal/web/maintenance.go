package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"slipway/registry/internal/bytesize"
	"slipway/registry/internal/maintenance/schedule"
	"slipway/registry/internal/pageindex"
	"slipway/shared/plural"
)

// jobRow is a job and the progress of its current run.
type jobRow struct {
	schedule.Job
	Phase   string
	Counts  []string
	Percent int64 // of the phase, 0 = unknown
}

type maintenancePage struct {
	frame
	Jobs    []jobRow
	Running bool // one of them, or about to
	Plans   bool // retention has a plan

	PlanOnly bool // no job applies the plan
}

// getMaintenance shows the jobs of this process to administrators.
func (web *Web) getMaintenance(w http.ResponseWriter, v *visit) error {
	if !web.administers(v) {
		return errNoPage
	}
	p := maintenancePage{frame: web.frame(v, "maintenance", "Maintenance"), Plans: web.o.Plan != nil}
	for _, job := range web.o.Board.Jobs() {
		row := jobRow{Job: job}
		if job.Done != nil {
			web.addProgress(&row)
		}
		p.Running = p.Running || job.Asked || job.Done != nil
		p.Jobs = append(p.Jobs, row)
	}
	p.PlanOnly = p.Plans && !slices.ContainsFunc(p.Jobs, func(row jobRow) bool { return row.Name == schedule.RetentionApply })
	return web.pages.Show(w, http.StatusOK, "maintenance", p)
}

// addProgress adds the progress of the run.
func (web *Web) addProgress(row *jobRow) {
	done := row.Done
	row.Phase, row.Percent = done.Phase(), done.Percent.Load()
	if n := int(done.Repositories.Load()); n > 0 {
		text := plural.Of(n, "repository")
		if all := web.countRepositories(); all >= n {
			text = fmt.Sprintf("%d of %s", n, plural.Of(all, "repository"))
		}
		row.Counts = append(row.Counts, text)
	}
	if n := done.Manifests.Load(); n > 0 {
		row.Counts = append(row.Counts, plural.Of(n, "manifest"))
	}
	if n := done.Blobs.Load(); n > 0 {
		row.Counts = append(row.Counts, plural.Of(n, "blob"))
	}
	if n := done.Bytes.Load(); n > 0 {
		row.Counts = append(row.Counts, bytesize.Text(n))
	}
}

// countRepositories returns the number of repositories in the index, 0 if it is unknown.
func (web *Web) countRepositories() int {
	if web.o.Index == nil || web.o.Index.Complete().IsZero() {
		return 0
	}
	return web.o.Index.Repositories(pageindex.Query{Limit: 1}).Total
}

// offers reports whether the visitor may start that job.
func (web *Web) offers(v *visit, name string) bool {
	return v.csrf != "" && web.administers(v) && slices.ContainsFunc(web.o.Board.Jobs(), func(j schedule.Job) bool { return j.Name == name })
}

// postStart starts a job.
func (web *Web) postStart(w http.ResponseWriter, v *visit) error {
	name := v.PostForm.Get("job")
	if !web.offers(v, name) {
		return errNoPage
	}
	if _, err := web.actJSON(v, http.MethodPost, "/_slipway/jobs/"+url.PathEscape(name), map[string]string{"plan": v.PostForm.Get("plan")}); err != nil {
		return err
	}
	return web.back(w, v, "/maintenance", "started")
}
