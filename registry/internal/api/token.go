package api

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"slipway/registry/internal/auth"
	"slipway/registry/internal/oci"
)

// TokenPath is the path of the built-in token service, below the prefix.
const TokenPath = "/auth/token"

// maxTokenForm bounds the form of a POST, in which a token may stand for the password.
const maxTokenForm = 128 << 10

// TokenService gives out tokens.
type TokenService interface {
	Issue(r *http.Request, q auth.TokenRequest) (auth.Issued, error)
}

// tokenAnswer is the answer of the Docker token specification and of OAuth2; clients
// look for the token under either name.
type tokenAnswer struct {
	Token    string `json:"token"`
	Access   string `json:"access_token"`
	Scope    string `json:"scope,omitempty"`
	Lifetime int    `json:"expires_in"`
	At       string `json:"issued_at"`
	Refresh  string `json:"refresh_token,omitempty"`
}

// getToken answers GET with credentials in the Authorization header, or none.
func (a *API) getToken(w http.ResponseWriter, r *request) error {
	return a.issue(w, r, auth.TokenRequest{
		Service: r.param("service"), Scopes: r.params()["scope"], Offline: r.param("offline_token") == "true",
	})
}

// postToken answers the OAuth2 form.
func (a *API) postToken(w http.ResponseWriter, r *request) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxTokenForm+1))
	if err != nil {
		return clientFailed(err)
	}
	form, err := url.ParseQuery(string(body))
	if len(body) > maxTokenForm || err != nil || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		return badRequest("a form with grant_type is expected")
	}
	q := auth.TokenRequest{Service: form.Get("service"), Scopes: form["scope"], Offline: form.Get("access_type") == "offline"}
	switch form.Get("grant_type") {
	case "password":
		q.Password, q.User, q.Secret = true, form.Get("username"), form.Get("password")
	case "refresh_token":
		if q.Refresh = form.Get("refresh_token"); q.Refresh == "" {
			return badRequest("refresh_token is missing")
		}
		q.Offline = true // clients store what comes back
	default:
		return badRequest("grant_type must be password or refresh_token")
	}
	return a.issue(w, r, q)
}

func badRequest(detail string) error {
	return &statusError{http.StatusBadRequest, oci.Explain(oci.CodeUnsupported, detail)}
}

func (a *API) issue(w http.ResponseWriter, r *request, q auth.TokenRequest) error {
	issued, err := a.opts.Tokens.Issue(r.Request, q)
	r.user, r.fresh = issued.User, issued.Fresh
	r.rec.SetUser(issued.User)
	if err != nil {
		var wrong *oci.Error
		if err = r.refused(w, err); errors.As(err, &wrong) && wrong.Code == oci.CodeUnsupported {
			return &statusError{http.StatusBadRequest, wrong}
		}
		return err
	}
	if issued.User != "" {
		r.event = "login"
	}
	w.Header()["Cache-Control"] = []string{"no-store"}
	return writeJSON(w, r, http.StatusOK, tokenAnswer{
		Token: issued.Token, Access: issued.Token, Scope: issued.Scope, Refresh: issued.Refresh,
		Lifetime: int(issued.Lifetime.Seconds()), At: issued.At.UTC().Format(time.RFC3339),
	})
}
