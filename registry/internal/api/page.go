package api

import (
	"net/http"
	"net/url"
	"strconv"

	"slipway/registry/internal/oci"
)

// pageSize reads the parameter n. ok is false without one. The error is
// PAGINATION_NUMBER_INVALID.
func (r *request) pageSize() (n int, ok bool, err error) {
	s := r.param("n")
	if s == "" {
		return 0, false, nil
	}
	n, err = strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, false, oci.NewError(oci.CodePaginationInvalid, map[string]string{"n": s})
	}
	return n, true, nil
}

// linkNext points at the next page (RFC 8288). The URL is relative to the
// host, so it is right behind any proxy.
func (r *request) linkNext(w http.ResponseWriter, parameters url.Values) {
	if namespace := r.param("ns"); namespace != "" {
		parameters.Set("ns", namespace)
	}
	u := url.URL{Path: r.URL.Path, RawQuery: parameters.Encode()}
	w.Header().Set("Link", "<"+u.String()+`>; rel="next"`)
}

// nextPage is the parameters of the page behind last.
func nextPage(n int, last string) url.Values {
	return url.Values{"n": {strconv.Itoa(n)}, "last": {last}}
}
