package web

import "net/http"

type accountPage struct {
	frame
}

// errNotIn is the error of a page for users only.
var errNotIn = &refusal{http.StatusNotFound, "Log in to see your account."}

func (web *Web) getAccount(w http.ResponseWriter, v *visit) error {
	p := accountPage{frame: web.frame(v, "account", "Your account")}
	if p.Name == "" {
		return errNotIn
	}
	return web.pages.Show(w, http.StatusOK, "account", p)
}
