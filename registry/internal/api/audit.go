package api

import (
	"cmp"
	"net/http"
	"time"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/oci"
)

// audit writes what the request did into the audit log: acts, whether they succeeded or
// not, logins and refusals.
func (r *request) audit(status int) {
	log := r.row.api.opts.Audit
	if log == nil {
		return
	}
	event := r.auditEvent(status)
	if event == "" {
		return
	}
	token := r.token
	if r.grant != nil {
		token = cmp.Or(r.grant.PersonalToken(), token) // Change names the token that the request is about
	}
	log.Write(audit.Record{
		Time: time.Now(), Event: event, Who: cmp.Or(r.user, "anonymous"), Token: token, Claimed: r.claimed, From: r.RemoteAddr, Method: r.Method,
		Repository: string(r.name), Reference: r.last, Digest: string(r.digest), Moved: r.moved, Change: r.change,
		Status: status, Reason: string(r.refusal), RequestID: r.rec.ID(),
	})
}

// auditEvent is "" for what is no act: reads of lists, what a client asks before it
// uploads, and requests that only learn that a login is needed or fail before that, such as
// those with an invalid name: anybody can send any number of them.
func (r *request) auditEvent(status int) string {
	switch {
	case r.refusal == auth.NoCredentials && status == http.StatusUnauthorized:
		return ""
	case r.refusal != "":
		return "refused"
	case r.event == "pull" && status == http.StatusNotFound:
		return ""
	case r.event != "" && r.admitted:
		return r.event
	case r.fresh:
		return "login"
	default:
		return ""
	}
}

// noteMoves remembers which of the tags of a push point at another manifest now.
func (a *API) noteMoves(r *request, before map[oci.Tag]oci.Digest) {
	for tag, d := range before {
		if d != r.digest {
			if r.moved == nil {
				r.moved = map[string]string{}
			}
			r.moved[string(tag)] = string(d)
		}
	}
}

// tagsBefore returns the targets of the tags of a push, those that exist; nil without an audit
// log.
func (a *API) tagsBefore(r *request, ref oci.Reference, more []oci.Tag) map[oci.Tag]oci.Digest {
	if a.opts.Audit == nil {
		return nil
	}
	before := map[oci.Tag]oci.Digest{}
	for _, tag := range append([]oci.Tag{ref.Tag}, more...) {
		if tag == "" {
			continue
		}
		if d, ok := a.repository(r).TagTarget(r.Context(), tag); ok {
			before[tag] = d
		}
	}
	return before
}
