package api

import (
	"net/http"

	"slipway/registry/internal/oci"
)

// defaultCatalogPage is the number of repositories that a client gets that asks for no
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
	names, more, err := a.opts.Registry.Catalog(r.Context(), n, r.param("last"), r.visible())
	if err != nil {
		return err
	}
	if more {
		r.linkNext(w, nextPage(n, names[len(names)-1]))
	}
	release, err := a.roomForList(r, names)
	if err != nil {
		return err
	}
	defer release()
	return writeJSON(w, r, http.StatusOK, map[string][]string{"repositories": names})
}
