package api

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/gorilla/mux"

	"slipway/registry/internal/api/urls"
	"slipway/registry/openapi"
)

// getRoot is the liveness check of load balancers. Browsers are led to the pages, if there are any.
func (a *API) getRoot(w http.ResponseWriter, r *request) error {
	if a.pages != nil {
		w.Header().Add("Vary", "Accept")
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			return a.toPages(w, r)
		}
	}
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
	return nil
}

// getHealth answers whether the registry is healthy, for load balancers that reach only
// this address. Anyone may ask, so the details, such as addresses of other services, are
// served only on the debug address.
func (a *API) getHealth(w http.ResponseWriter, r *request) error {
	status, body := http.StatusOK, `{"status":"healthy"}`
	if !a.opts.Health.Healthy() {
		status, body = http.StatusServiceUnavailable, `{"status":"unhealthy"}`
	}
	w.Header().Set("Cache-Control", "no-store")
	return writeBody(w, r, status, contentTypeJSON, []byte(body))
}

// getBase is the API version check: 200 means that this is a registry and the client is
// let in (distribution-spec "Determining Support").
func (a *API) getBase(w http.ResponseWriter, r *request) error {
	return writeBody(w, r, http.StatusOK, contentTypeJSON, []byte("{}"))
}

// redirect normalizes a path that has one slash too many or too few at its end.
func (a *API) redirect(w http.ResponseWriter, r *request) error {
	to := r.URL.Path + "/"
	if bare, ok := strings.CutSuffix(r.URL.Path, "/"); ok {
		to = bare
	}
	return movedTo(w, r, to)
}

// orClean answers a request that its path keeps from being answered. If only
// empty or dot elements do, it points at the path without them, as CNCF
// distribution does: who was given an address with a slash at its end asks for
// //v2/. Else the answer is err.
func (a *API) orClean(w http.ResponseWriter, r *request, err error) error {
	clean := urls.Clean(r.URL.Path)
	if !a.routes(clean) {
		clean = strings.TrimSuffix(clean, "/")
	}
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if !reads || clean == r.URL.Path || !a.routes(clean) {
		return err
	}
	return movedTo(w, r, clean)
}

// routes reports whether a path means something.
func (a *API) routes(p string) bool {
	var match mux.RouteMatch
	return a.router.Match(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: p}}, &match) && match.MatchErr == nil
}

func movedTo(w http.ResponseWriter, r *request, at string) error {
	to := url.URL{Path: at, RawQuery: r.URL.RawQuery}
	w.Header().Set("Location", to.String())
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusMovedPermanently)
	return nil
}

// getOpenAPI answers the description of the API.
func (a *API) getOpenAPI(w http.ResponseWriter, r *request) error {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	return writeBody(w, r, http.StatusOK, []string{"application/yaml; charset=utf-8"}, openapi.Document)
}
