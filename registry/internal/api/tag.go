package api

import (
	"net/http"
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
	tags, more, err := a.repository(r).Tags(r.Context(), n, r.param("last"))
	if err != nil {
		return err
	}
	if more && len(tags) > 0 {
		r.linkNext(w, nextPage(n, tags[len(tags)-1]))
	}
	body := append(make([]byte, 0, listSize(tags)+len(r.name)), `{"name":"`...)
	body = append(append(body, r.name...), `","tags":`...)
	body = append(appendStrings(body, tags), "}\n"...)
	writeBody(w, r, http.StatusOK, contentTypeJSON, body)
	return nil
}
