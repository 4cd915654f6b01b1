package api

import (
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"slipway/registry/internal/oci"
)

// request is one request on its way through the API, with what was learned
// about it: handlers read it, and the log line at its end tells it.
type request struct {
	*http.Request
	api       *API
	row       *row
	serial    uint64
	start     time.Time
	name      oci.Name   // "" outside repositories
	last      string     // tag, digest or upload id as in the path, unchecked
	user      string     // "" if nobody in particular
	event     string     // "pull", "push", "mount", "delete": logged when it succeeds
	digest    oci.Digest // of what was pulled or pushed
	err       error
	gone      bool // the client hung up
	attempted bool // credentials came with it
	query     url.Values
}

// requestID names the request in logs and error answers. It is put together
// only where somebody reads it.
func (r *request) requestID() string { return r.api.instance + "-" + strconv.FormatUint(r.serial, 10) }

// param is a parameter of the query string, "" if it is absent.
func (r *request) param(key string) string { return r.params().Get(key) }

// params is the query string. What net/url cannot read of it is left out.
func (r *request) params() url.Values {
	if r.query == nil && r.URL.RawQuery != "" {
		r.query = r.URL.Query()
	}
	return r.query
}

// safeURI is the request's path and query without the upload's signed state,
// which would let a reader of the log take part in the upload.
func (r *request) safeURI() string {
	uri := r.URL.EscapedPath()
	if r.URL.RawQuery == "" {
		return uri
	}
	if !strings.Contains(r.URL.RawQuery, "_state") && !strings.ContainsAny(r.URL.RawQuery, "%;") {
		return uri + "?" + r.URL.RawQuery
	}
	q := r.URL.Query()
	q.Del("_state")
	if len(q) == 0 {
		return uri
	}
	return uri + "?" + q.Encode()
}

// remoteAddr is the client's address for logs: what the reverse proxy says,
// else the connection's. It decides nothing.
func remoteAddr(r *http.Request) string {
	if first := firstElement(r.Header.Get("X-Forwarded-For")); net.ParseIP(first) != nil {
		return first
	}
	if real := strings.TrimSpace(r.Header.Get("X-Real-Ip")); net.ParseIP(real) != nil {
		return real
	}
	return r.RemoteAddr
}
