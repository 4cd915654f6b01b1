package api

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"slipway/registry/internal/access"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/identity/personal"
	"slipway/registry/internal/oci"
)

// maxTokens bounds the tokens of all people in one answer.
const maxTokens = 500

// personalToken is a personal access token, without what ties it to its owner.
type personalToken struct {
	ID      string    `json:"id"`
	Owner   string    `json:"owner"`
	Note    string    `json:"note,omitempty"`
	Allow   []string  `json:"allow,omitempty"` // none stands for all rights of the owner
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	Used    time.Time `json:"used,omitzero"` // at this process since its start
}

type tokenList struct {
	Tokens []personalToken `json:"tokens"`
	More   bool            `json:"more"` // the list is not whole
}

// tokenRequest is the body of a request that creates a token.
type tokenRequest struct {
	Note    string   `json:"note"`
	Allow   []string `json:"allow"`
	Expires expiry   `json:"expires"`
}

// createdToken is the answer with the secret.
type createdToken struct {
	ID string `json:"id"`
	login
}

func (a *API) personalTokens() []*endpoint {
	if a.opts.Rights == nil || a.opts.Rights.People() == nil {
		return nil
	}
	return []*endpoint{
		{name: "tokens", path: "/_slipway/tokens", rows: []*row{
			{method: get, action: auth.Ping, handle: a.listTokens},
			{method: post, action: auth.Ping, only: (*request).ownTokens, handle: a.once(a.createToken), event: "token created"},
		}},
		{name: "tokens", path: "/_slipway/tokens/{token:[^/]+}", last: "token", rows: []*row{
			{method: del, action: auth.Ping, handle: a.revokeToken, event: "token revoked"},
		}},
	}
}

// ownTokens returns why the caller may not manage their tokens, nil if they may. Tokens may not: they are for less than their
// owner's rights or for a shorter time, and could create one that isn't.
func (r *request) ownTokens() error {
	switch {
	case r.grant == nil || r.grant.Caller.Kind != access.User && r.grant.Caller.Kind != access.Person:
		return oci.Explain(oci.CodeDenied, "only users have personal access tokens")
	case r.grant.PersonalToken() != "":
		return oci.Explain(oci.CodeDenied, "a personal access token cannot manage tokens: log in with the password")
	case r.grant.Caller.Bearer:
		return oci.Explain(oci.CodeDenied, "a bearer token cannot manage tokens: send name and password")
	}
	return nil
}

// tokensOf returns the owner whose tokens the request is about; the caller must be that owner, or an administrator.
func (r *request) tokensOf() (owner string, err error) {
	if owner = r.param("owner"); owner != "" && owner != r.user {
		return owner, r.administrator()
	}
	return r.user, r.ownTokens()
}

func (a *API) listTokens(w http.ResponseWriter, r *request) (err error) {
	people, list := a.opts.Rights.People(), tokenList{Tokens: []personalToken{}}
	var all []personal.Owned
	if r.param("all") == "true" {
		if err = r.administrator(); err == nil {
			all, list.More, err = people.Everybody(r.Context(), maxTokens)
		}
	} else {
		var owner string
		var own []personal.Token
		if owner, err = r.tokensOf(); err == nil {
			own, err = people.List(r.Context(), owner)
		}
		for _, t := range own {
			all = append(all, personal.Owned{Token: t, Owner: owner})
		}
	}
	if err != nil {
		return err
	}
	for _, t := range all {
		list.Tokens = append(list.Tokens, personalToken{t.ID, t.Owner, t.Note, t.Allow, t.Created, t.Expires, people.LastUsed(t.ID)})
	}
	return writeJSON(w, r, http.StatusOK, list)
}

func (a *API) createToken(w http.ResponseWriter, r *request) error {
	var q tokenRequest
	if err := a.decode(w, r, &q); err != nil {
		return err
	}
	wanted := personal.Token{Note: q.Note, Allow: q.Allow, Expires: q.Expires.UTC().Truncate(time.Second)}
	r.change = "allow " + strings.Join(wanted.Allow, ", ") + " until " + wanted.Expires.Format(time.RFC3339)
	var err error
	if wanted.Bond, err = a.opts.Rights.Bond(r.Context(), r.grant.Caller); err != nil {
		return err
	}
	if err := a.confirm(w, r); err != nil { // the bond may be that of a password set meanwhile, which the caller hasn't proven
		return err
	}
	secret, err := a.opts.Rights.People().Create(r.Context(), r.user, wanted)
	if errors.Is(err, personal.ErrInvalid) {
		return badRequest(strings.TrimPrefix(err.Error(), personal.ErrInvalid.Error()+": "))
	}
	if err != nil {
		return err
	}
	r.token = personal.IDOf(secret)
	w.Header()["Cache-Control"] = []string{"no-store"}
	return writeJSON(w, r, http.StatusCreated, createdToken{r.token, login{auth.LoginName(&r.grant.Caller), secret}})
}

func (a *API) revokeToken(w http.ResponseWriter, r *request) error {
	owner, err := r.tokensOf()
	if err != nil {
		return err
	}
	r.token, r.change = r.last, r.last+" of "+owner
	err = a.opts.Rights.People().Revoke(r.Context(), owner, r.last)
	if errors.Is(err, personal.ErrUnknown) {
		return &statusError{http.StatusNotFound, oci.Explain(oci.CodeNameUnknown, err.Error())}
	}
	return done(w, err)
}
