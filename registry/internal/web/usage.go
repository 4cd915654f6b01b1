package web

import (
	"net/http"

	"slipway/registry/internal/access"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pageindex"
)

// maxUsage is the number of repositories that the page of usage shows.
const maxUsage = 100

type usagePage struct {
	frame
	Rows    []pageindex.Repository
	Largest int64 // of the rows, for the bars
	Total   int   // repositories that the visitor may see
	Bytes   int64 // of them; what several have counts in each
	Stored  int64 // of all repositories, each blob once; 0 = the visitor may not see all
	Whole   bool  // the visitor may see all repositories
	Own     bool  // sorted by what only one repository has
	Ready   bool  // sizes are known
}

// getUsage shows the sizes of the largest repositories that the visitor may see.
func (web *Web) getUsage(w http.ResponseWriter, v *visit) error {
	if web.o.Index == nil {
		return errNoPage
	}
	p := usagePage{frame: web.frame(v, "usage", "Usage"), Ready: web.o.Index.Want()}
	if !p.Ready {
		return web.pages.Show(w, http.StatusOK, "usage", p)
	}
	room, err := web.reserve(v, scanBytes)
	if err != nil {
		return err
	}
	defer room.Release()
	find := func(order string) pageindex.Page {
		return web.o.Index.Repositories(pageindex.Query{Visible: func(name oci.Name) bool { return v.may(access.List, name) }, Sort: order, Limit: maxUsage})
	}
	found := find(pageindex.BySize)
	if p.Whole = found.Hidden == 0; p.Whole {
		p.Stored = web.o.Index.Stored()
		if p.Own = v.URL.Query().Get("sort") == pageindex.ByOwn; p.Own {
			found = find(pageindex.ByOwn)
		}
	}
	p.Rows, p.Total, p.Bytes = found.Repositories, found.Total, found.Bytes
	for i := range p.Rows {
		p.Largest = max(p.Largest, p.Rows[i].Bytes)
	}
	return web.pages.Show(w, http.StatusOK, "usage", p)
}

// seesAll reports whether the visitor may see all repositories that the index has. Others don't learn
// what only one repository has: a blob that they push would tell them whether a hidden one has it.
func (web *Web) seesAll(v *visit) bool {
	if v.grant == nil || web.o.Index == nil {
		return true
	}
	return web.o.Index.Repositories(pageindex.Query{Visible: func(name oci.Name) bool { return v.may(access.List, name) }, Limit: 1}).Hidden == 0
}
