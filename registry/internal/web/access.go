package web

import (
	"net/http"
	"slices"
	"strings"

	"slipway/registry/internal/access"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/oci"
	ui "slipway/shared/web"
)

// rightColumns are the rights in the order of the matrix.
var rightColumns = []access.Rights{access.Pull, access.Push, access.TagMove, access.Delete, access.List, access.Admin}

// cell is the decision on one right of one caller.
type cell struct {
	Right   string
	Allowed bool
	Why     string
}

type callerRow struct {
	Who     string
	Cells   []cell
	NoLogin bool // the caller cannot log in
}

type accessPage struct {
	frame
	Repository string
	Rights     []string
	Rows       []callerRow
	Who        *callerRow // whose rights are explained
	Whole      bool       // all callers are shown, not the visitor alone
	More       bool       // there are callers that the page leaves out
	Disabled   []string   // actions that are disabled, whatever the rules
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
	for _, right := range rightColumns {
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
	me := auth.Known{Caller: v.grant.Caller, Who: v.grant.Caller.String()}
	callers := []auth.Known{me}
	if p.Whole = v.may(access.Admin, name); p.Whole {
		if callers, p.More, err = web.o.Auth.Callers(v.Context()); err != nil {
			return err
		}
		if !slices.ContainsFunc(callers, func(c auth.Known) bool { return c.Who == me.Who }) {
			callers = append(callers, me)
		}
	}
	who := q.Get("who")
	if who == "" || !p.Whole {
		who = me.Who
	}
	for i := range callers {
		row := web.callerRow(&callers[i], name)
		p.Rows = append(p.Rows, row)
		if row.Who == who {
			p.Who = &row
		}
	}
	return web.pages.Show(w, http.StatusOK, "access", p)
}

func (web *Web) callerRow(c *auth.Known, name oci.Name) callerRow {
	row := callerRow{Who: c.Who, NoLogin: c.NoPassword}
	for _, right := range rightColumns {
		d := web.o.Auth.Explain(&c.Caller, right, name)
		row.Cells = append(row.Cells, cell{Right: right.String(), Allowed: d.Allowed, Why: ui.Sentence(d.Part())})
	}
	return row
}
