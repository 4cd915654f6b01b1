package api

import (
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
	names, more := []string(nil), false
	if n > 0 {
		if names, more, err = a.opts.Registry.Catalog(r.Context(), n, r.param("last")); err != nil {
			return err
		}
	}
	if more && len(names) > 0 {
		r.linkNext(w, nextPage(n, names[len(names)-1]))
	}
	body := append(make([]byte, 0, listSize(names)), `{"repositories":`...)
	body = append(appendStrings(body, names), "}\n"...)
	writeBody(w, r, http.StatusOK, contentTypeJSON, body)
	return nil
}
