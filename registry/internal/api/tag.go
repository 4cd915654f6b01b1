package api

import (
	"context"
	"net/http"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
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
	last := r.param("last")
	body, page, err := a.tagPage(r.Context(), r.name, n, last)
	if err != nil {
		return err
	}
	if page.Next != "" {
		r.linkNext(w, nextPage(n, page.Next))
	}
	warn(w, page.Warning)
	return a.writeLarge(w, r, contentTypeJSON, body, 3*int64(len(body)), func(ctx context.Context) ([]byte, error) {
		body, _, err := a.tagPage(ctx, r.name, n, last)
		return body, err
	})
}

// tagPage is the body of a page, and what else there is to know about it.
func (a *API) tagPage(ctx context.Context, name oci.Name, n int, last string) (body []byte, page registry.Page, err error) {
	tags, page, err := a.opts.Registry.Repository(name).Tags(ctx, n, last)
	if err != nil {
		return nil, page, err
	}
	body = append(make([]byte, 0, listSize(tags)+len(name)), `{"name":"`...)
	body = append(append(body, name...), `","tags":`...)
	return append(appendStrings(body, tags), "}\n"...), page, nil
}

// warn tells the client something about the answer, if there is anything.
func warn(w http.ResponseWriter, text string) {
	if text != "" {
		w.Header().Add("Warning", text)
	}
}
