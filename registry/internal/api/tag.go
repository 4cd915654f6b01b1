package api

import (
	"net/http"

	"slipway/registry/internal/oci"
)

// listTags answers the list of a repository's tags. Without n it is the whole
// list, as clients of CNCF distribution expect; n above the limit is lowered.
func (a *API) listTags(w http.ResponseWriter, r *request) error {
	n, asked, err := r.pageSize()
	if err != nil {
		return err
	}
	if !asked {
		n = -1
	}
	n = min(n, a.opts.TagsMax)
	last, repo := r.param("last"), a.puller(r)
	tags, page, err := repo.Tags(r.Context(), n, last)
	if err != nil {
		return err
	}
	if tags == nil {
		tags = []string{}
	}
	release, err := a.roomForList(r, tags)
	if err != nil {
		return err
	}
	defer release()
	if page.Next != "" {
		r.linkNext(w, nextPage(n, page.Next))
	}
	warn(w, page.Warning)
	return writeJSON(w, r, http.StatusOK, struct {
		Name oci.Name `json:"name"`
		Tags []string `json:"tags"`
	}{repo.Name(), tags})
}

// warn tells the client something about the answer, if there is anything.
func warn(w http.ResponseWriter, text string) {
	if text != "" {
		w.Header().Add("Warning", text)
	}
}
