package api

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"slipway/registry/internal/access"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/oci"
)

// Authorizer decides whether a request may do what its route does. An error is an
// *auth.Refusal or a failure to decide; the grant names the user in any case.
type Authorizer interface {
	Authorize(r *http.Request, want auth.Access) (auth.Grant, error)

	// Confirm decides again on a request that was let in, and updates its grant.
	Confirm(r *http.Request, g *auth.Grant, want auth.Access) error
}

const allowOrigin = "Access-Control-Allow-Origin"

// isForeign reports whether a browser sent a change on behalf of a page of another site that http.headers doesn't allow, as
// distribution's do, by its origin and the method. It goes by Sec-Fetch-Site or, if that is missing, by Origin. Browsers attach
// remembered logins and certificates even without a preflight. An origin of *, which distribution's documentation shows, was not
// written with this page in mind.
func (r *request) isForeign() bool {
	a, origin := r.row.api, r.Header.Get("Origin")
	if a.origins.Check(r.Request) == nil {
		return false
	}
	allowed := func(key, value string) bool {
		return slices.ContainsFunc(a.headers, func(h commonHeader) bool {
			return h.key == key && slices.ContainsFunc(strings.Split(strings.Join(h.values, ","), ","), func(v string) bool { return strings.TrimSpace(v) == value })
		})
	}
	return r.row.endpoint.name == routePages || origin == "" || !allowed(allowOrigin, origin) || !allowed("Access-Control-Allow-Methods", r.Method)
}

// authorize asks whether the request may do what its row does.
func (a *API) authorize(w http.ResponseWriter, r *request) error {
	if a.opts.Auth == nil || r.row.action == 0 {
		return nil
	}
	if r.grant != nil { // of a page, which has identified the caller
		r.user = r.grant.User
		r.rec.SetUser(r.user)
		return a.confirm(w, r)
	}
	grant, err := a.opts.Auth.Authorize(r.Request, r.access())
	r.grant, r.user, r.fresh = &grant, grant.User, grant.Fresh
	r.rec.SetUser(grant.User)
	return r.refused(w, err)
}

// confirm asks again whether the request may do what its row does.
func (a *API) confirm(w http.ResponseWriter, r *request) error {
	if r.grant != nil {
		if err := r.refused(w, a.opts.Auth.Confirm(r.Request, r.grant, r.access())); err != nil {
			return err
		}
	}
	return r.row.allows(r)
}

// refused notes a refusal and sets the headers of its answer; it returns err.
func (r *request) refused(w http.ResponseWriter, err error) error {
	var refusal *auth.Refusal
	if errors.As(err, &refusal) {
		r.refusal, r.cause = refusal.Reason, refusal.Cause
		r.row.api.opts.Metrics.Refused(refusal.Reason)
		if refusal.User != r.user {
			r.claimed = refusal.User
		}
		if refusal.Challenge != "" {
			w.Header().Set("WWW-Authenticate", refusal.Challenge)
		}
		if refusal.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(max(int(refusal.RetryAfter.Seconds()), 1)))
		}
	}
	return err
}

// tooMany refuses a request that is over a limit.
func (a *API) tooMany(w http.ResponseWriter, r *request, err error) error {
	readOn(w, r)
	return r.refused(w, err)
}

// may reports whether the caller may do that in a repository as well.
func (r *request) may(want access.Rights, name oci.Name) bool {
	return r.grant == nil || r.grant.May(want, name)
}

// classes are those of the manifests that the caller's token is for; nil stands for all.
func (r *request) classes() []string {
	if r.grant == nil {
		return nil
	}
	return r.grant.Classes(r.name)
}

// canPull selects the repositories that a mount may take from; nil stands for every repository.
func (r *request) canPull() func(oci.Name) bool {
	if r.grant == nil || r.grant.Unlimited() {
		return nil
	}
	return func(name oci.Name) bool { return r.grant.May(access.Pull, name) }
}

// visible selects the repositories that the catalog shows; nil stands for every repository.
func (r *request) visible() func(oci.Name) bool {
	if r.grant == nil || r.grant.Unlimited() {
		return nil
	}
	return r.grant.Sees
}

// access returns the rights that the request needs. A mount takes from another repository as
// well.
func (r *request) access() auth.Access {
	want := auth.Access{Action: r.row.action, Repository: r.name}
	if r.row.endpoint.name == routeUploads && r.URL.RawQuery != "" && r.param("mount") != "" {
		if from, err := oci.ParseName(r.param("from")); err == nil {
			want.From = from
		}
	}
	return want
}
