package api

import (
	"net/http"
	"net/url"
	"strings"
)

// getRoot is the liveness check of load balancers.
func (a *API) getRoot(w http.ResponseWriter, r *request) error {
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
	return nil
}

// getHealth tells how the checks stand. It is served here as well as on the
// debug address, so that whoever reaches only this one can ask.
func (a *API) getHealth(w http.ResponseWriter, r *request) error {
	a.opts.Health.ServeHTTP(w, r.Request)
	return nil
}

// getBase is the API version check: whoever gets 200 speaks to a registry and
// is let in (distribution-spec "Determining Support").
func (a *API) getBase(w http.ResponseWriter, r *request) error {
	writeBody(w, r, http.StatusOK, contentTypeJSON, []byte("{}"))
	return nil
}

// redirect mends a path that has one slash too many or too few.
func (a *API) redirect(w http.ResponseWriter, r *request) error {
	to := url.URL{Path: r.URL.Path + "/", RawQuery: r.URL.RawQuery}
	if bare, ok := strings.CutSuffix(r.URL.Path, "/"); ok {
		to.Path = bare
	}
	w.Header().Set("Location", to.String())
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusMovedPermanently)
	return nil
}
