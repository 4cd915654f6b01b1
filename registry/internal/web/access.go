package web

import (
	"net/http"
	"strings"

	"slipway/registry/internal/auth"
	"slipway/registry/internal/oci"
)

type accessPage struct {
	frame
	Repository string
	Rights     []string
	Rows       []auth.CallerRights
	Who        *auth.CallerRights // whose rights are explained
	Whole      bool               // all callers are shown, not the visitor alone
	More       bool               // there are callers that the page leaves out
	Disabled   []string           // actions that are disabled, whatever the rules
}

// showsRights reports whether the visitor has a link to the page of rights.
func (web *Web) showsRights(v *visit) bool { return v.grant != nil && v.user() != "" }

// getAccess shows all rights in a repository to its administrators, and to other visitors
// their own.
func (web *Web) getAccess(w http.ResponseWriter, v *visit) error {
	if v.grant == nil {
		return errNoPage
	}
	q := v.URL.Query()
	p := accessPage{frame: web.frame(v, "access", "Access"), Repository: strings.TrimSpace(q.Get("repository"))}
	for _, right := range auth.RightColumns {
		p.Rights = append(p.Rights, right.String())
	}
	if web.o.ReadOnly {
		p.Disabled = append(p.Disabled, "The registry is read-only: nobody can change anything.")
	} else if !web.o.DeleteEnabled {
		p.Disabled = append(p.Disabled, "Deletion is disabled: nobody can delete anything.")
	}
	if p.Repository == "" {
		return web.pages.Show(w, http.StatusOK, "access", p)
	}
	name, err := oci.ParseName(p.Repository)
	if err != nil {
		p.Problem = "This is not the name of a repository."
		return web.pages.Show(w, http.StatusBadRequest, "access", p)
	}
	if p.Rows, p.Whole, p.More, err = web.o.Auth.Rights(v.Context(), v.grant, name); err != nil {
		return err
	}
	who := q.Get("who")
	if who == "" || !p.Whole {
		who = v.grant.Caller.String()
	}
	for i := range p.Rows {
		if p.Rows[i].Who == who {
			p.Who = &p.Rows[i]
		}
	}
	return web.pages.Show(w, http.StatusOK, "access", p)
}
