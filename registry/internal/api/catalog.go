package api

import (
	"context"
	"net/http"

	"slipway/registry/internal/oci"
)

// defaultCatalogPage is how many repositories a client gets that asks for no
// number.
const defaultCatalogPage = 100

func (a *API) getCatalog(w http.ResponseWriter, r *request) error {
	n, asked, err := r.pageSize()
	if err != nil {
		return err
	}
	if !asked {
		n = min(defaultCatalogPage, a.opts.CatalogMax)
	}
	if n > a.opts.CatalogMax {
		return oci.NewError(oci.CodePaginationInvalid, map[string]int{"n": n})
	}
	last := r.param("last")
	visible := r.visible()
	body, next, err := a.catalogPage(r.Context(), n, last, visible)
	if err != nil {
		return err
	}
	if next != "" {
		r.linkNext(w, nextPage(n, next))
	}
	return a.writeLarge(w, r, contentTypeJSON, body, 3*int64(len(body)), func(ctx context.Context) ([]byte, error) {
		body, _, err := a.catalogPage(ctx, n, last, visible)
		return body, err
	})
}

// catalogPage is the body of a page, and behind which repository the next one
// begins, "" if it is the last.
func (a *API) catalogPage(ctx context.Context, n int, last string, visible func(oci.Name) bool) (body []byte, next string, err error) {
	names, more := []string(nil), false
	if n > 0 {
		if names, more, err = a.opts.Registry.Catalog(ctx, n, last, visible); err != nil {
			return nil, "", err
		}
	}
	if more && len(names) > 0 {
		next = names[len(names)-1]
	}
	body = append(make([]byte, 0, listSize(names)), `{"repositories":`...)
	return append(appendStrings(body, names), "}\n"...), next, nil
}
