package api

import (
	"net"
	"net/http"
	"net/url"
	"strings"

	"slipway/registry/internal/auth"
	"slipway/registry/internal/oci"
	"slipway/shared/logging"
)

// request is one request on its way through the API, with what was learned
// about it: handlers read it, and the log line at its end tells it.
type request struct {
	*http.Request
	rec     *logging.Recorder
	row     *row
	name    oci.Name // "" outside repositories
	last    string   // tag, digest or upload id as in the path, unchecked
	user    string   // "" if nobody in particular
	event   string   // "pull", "push", "mount", "delete": logged when it succeeds
	digest  oci.Digest
	refusal auth.Reason // why it may not pass, "" if it may
	fresh   bool        // its password was compared, not remembered
	err     error
	gone    bool // the client hung up, or was cut off
	stalled bool // it was cut off because it was too slow
	query   url.Values
}

// param is a parameter of the query string, "" if it is absent.
func (r *request) param(key string) string { return r.params().Get(key) }

// params is the query string. What net/url cannot read of it is left out.
func (r *request) params() url.Values {
	if r.query == nil && r.URL.RawQuery != "" {
		r.query = r.URL.Query()
	}
	return r.query
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
