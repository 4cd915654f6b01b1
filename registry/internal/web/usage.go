package web

import (
	"net/http"

	"slipway/registry/internal/access"
	"slipway/registry/internal/index"
	"slipway/registry/internal/oci"
)

// maxUsage is how many repositories the page of usage shows.
const maxUsage = 100

type usagePage struct {
	frame
	Rows    []index.Repository
	Largest int64 // of the rows, for the bars
	Total   int   // repositories that the visitor may see
	Bytes   int64 // of them; what several have counts in each
	Stored  int64 // of all repositories, each blob once; 0 = the visitor may not see all
	Own     bool  // sorted by what only one repository has
	Ready   bool  // sizes are known
}

// getUsage shows the sizes of the largest repositories that the visitor may see.
func (web *Web) getUsage(w http.ResponseWriter, v *visit) error {
	if web.o.Index == nil {
		return errNoPage
	}
	p := usagePage{frame: web.frame(v, "usage", "Usage"), Own: v.URL.Query().Get("sort") == index.ByOwn, Ready: web.o.Index.Want()}
	if !p.Ready {
		return web.pages.Show(w, http.StatusOK, "usage", p)
	}
	order := index.BySize
	if p.Own {
		order = index.ByOwn
	}
	found, err := web.o.Index.Repositories(index.Query{Visible: func(name oci.Name) bool { return v.may(access.List, name) }, Sort: order, Limit: maxUsage})
	if err != nil {
		return err
	}
	p.Rows, p.Total, p.Bytes = found.Repositories, found.Total, found.Bytes
	if web.countRepositories() == p.Total {
		if p.Stored, err = web.o.Index.Stored(); err != nil {
			return err
		}
	}
	for i := range p.Rows {
		p.Largest = max(p.Largest, p.Rows[i].Bytes)
	}
	return web.pages.Show(w, http.StatusOK, "usage", p)
}
