package api

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"slipway/registry/internal/auth"
	"slipway/registry/internal/oci"
	"slipway/shared/logging"
)

// request is one request on its way through the API, with what was learned
// about it: handlers read it, and the log line at its end tells it.
type request struct {
	*http.Request
	rec      *logging.Recorder
	row      *row
	name     oci.Name // "" outside repositories
	literal  oci.Name // what to try if name is unknown; "" = nothing
	last     string   // tag, digest or upload id as in the path, unchecked
	user     string   // the authenticated caller; "" is anonymous
	claimed  string   // the name that a refused login gave
	event    string   // "pull", "push", "mount", "delete", "restore": logged when it succeeds
	digest   oci.Digest
	token    string            // ID of the personal access token that it is about
	change   string            // what it changes, for the audit log
	moved    map[string]string // tags of a push that pointed elsewhere, for the audit log
	admitted bool              // the caller may do what the row does
	grant    *auth.Grant       // who sends it and what they may do; nil = everybody may do everything
	refusal  auth.Reason       // why it may not pass, "" if it may
	cause    error             // of the refusal, for the log
	fresh    bool              // its password was compared, not remembered
	err      error
	gone     bool // the client hung up, or was cut off
	stalled  bool // it was cut off because it was too slow
	query    url.Values
}

// maxBody bounds a body of JSON, in bytes.
const maxBody = 64 << 10

// decode reads a body of JSON, and refuses unknown fields. A body may take minutes, so the caller's rights are confirmed after it.
func (a *API) decode(w http.ResponseWriter, r *request, into any) error {
	d := json.NewDecoder(io.LimitReader(r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return badRequest("not the expected JSON: " + err.Error())
	}
	return a.confirm(w, r)
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
