package api

import (
	"encoding/json"
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
	names, more := []string{}, false
	if n > 0 {
		if names, more, err = a.opts.Registry.Catalog(r.Context(), n, last, visible); err != nil {
			return err
		}
	}
	if more && len(names) > 0 {
		r.linkNext(w, nextPage(n, names[len(names)-1]))
	}
	if names == nil {
		names = []string{}
	}
	release, err := a.roomForList(r, names)
	if err != nil {
		return err
	}
	defer release()
	body, err := json.Marshal(struct {
		Repositories []string `json:"repositories"`
	}{names})
	if err != nil {
		return err
	}
	return writeBody(w, r, http.StatusOK, contentTypeJSON, append(body, '\n'))
}
