package api

import (
	"context"
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
	last := r.param("last")
	body, next, err := a.tagPage(r.Context(), r.name, n, last)
	if err != nil {
		return err
	}
	if next != "" {
		r.linkNext(w, nextPage(n, next))
	}
	return a.writeLarge(w, r, contentTypeJSON, body, 3*int64(len(body)), func(ctx context.Context) ([]byte, error) {
		body, _, err := a.tagPage(ctx, r.name, n, last)
		return body, err
	})
}

// tagPage is the body of a page, and behind which tag the next one begins, "" if it
// is the last.
func (a *API) tagPage(ctx context.Context, name oci.Name, n int, last string) (body []byte, next string, err error) {
	tags, more, err := a.opts.Registry.Repository(name).Tags(ctx, n, last)
	if err != nil {
		return nil, "", err
	}
	if more && len(tags) > 0 {
		next = tags[len(tags)-1]
	}
	body = append(make([]byte, 0, listSize(tags)+len(name)), `{"name":"`...)
	body = append(append(body, name...), `","tags":`...)
	return append(appendStrings(body, tags), "}\n"...), next, nil
}
