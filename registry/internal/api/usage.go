package api

import (
	"net/http"
	"time"

	"slipway/registry/internal/auth"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pageindex"
)

// maxUsage is the most repositories in one answer.
const maxUsage = 1000

// usage is the answer about sizes.
type usage struct {
	Repositories []repositoryUsage `json:"repositories"`
	Total        int               `json:"total"`            // that the caller may see
	Bytes        int64             `json:"bytes"`            // of them; what several have counts in each
	Stored       *int64            `json:"stored,omitempty"` // of all repositories, each blob once; nil = the caller may not see all
}

// usageSize is about the bytes of a repository in an answer.
const usageSize = 512

type repositoryUsage struct {
	Name   oci.Name  `json:"name"`
	Tags   int       `json:"tags"`
	Images int       `json:"images"`
	Bytes  int64     `json:"bytes"`
	Own    *int64    `json:"own,omitempty"` // of those that no other repository has; nil = the caller may not see all
	Pushed time.Time `json:"pushed,omitzero"`
	Pulled time.Time `json:"pulled,omitzero"`
}

func (a *API) usage() []*endpoint {
	if a.opts.Index == nil {
		return nil
	}
	return []*endpoint{{name: "usage", path: "/_slipway/usage", rows: []*row{{method: get, action: auth.Catalog, handle: a.getUsage}}}}
}

// getUsage answers the sizes of the largest repositories that the caller may list. Callers who may not see all don't
// learn what only one repository has: a blob that they push would tell them whether a hidden one has it.
func (a *API) getUsage(w http.ResponseWriter, r *request) error {
	n, asked, err := r.pageSize()
	if err != nil {
		return err
	}
	if !asked || n == 0 || n > maxUsage {
		n = maxUsage
	}
	if !a.opts.Index.Want() {
		e := oci.Explain(oci.CodeUnavailable, "sizes are being collected: ask again later")
		e.RetryAfter = 5 * time.Second
		return e
	}
	release, err := a.room(r, int64(n)*usageSize)
	if err != nil {
		return err
	}
	defer release()
	found := a.opts.Index.Repositories(pageindex.Query{Visible: r.visible(), Sort: pageindex.BySize, Limit: n})
	answer := usage{Repositories: []repositoryUsage{}, Total: found.Total, Bytes: found.Bytes}
	if found.Hidden == 0 {
		stored := a.opts.Index.Stored()
		answer.Stored = &stored
	}
	for i := range found.Repositories {
		x := &found.Repositories[i]
		row := repositoryUsage{Name: x.Name, Tags: x.Tags, Images: x.Manifests, Bytes: x.Bytes, Pushed: x.Pushed, Pulled: x.Pulled}
		if found.Hidden == 0 {
			row.Own = &x.Own
		}
		answer.Repositories = append(answer.Repositories, row)
	}
	return writeJSON(w, r, http.StatusOK, answer)
}
