package api

import (
	"crypto/subtle"
	"errors"
	"net/http"

	"slipway/relay/internal/account"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

// forUser admits users by name and password, or by the session of the pages. Browsers send both also with forms of other
// sites; those are refused.
func (a *API) forUser(h userHandler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := a.o.Origins.Own(r); err != nil {
			return err
		}
		v, err := a.user(r)
		if err != nil {
			if refusal.KindOf(err) == refusal.KindUnauthorized {
				w.Header().Set("WWW-Authenticate", `Basic realm="relay", charset="UTF-8"`)
			}
			return err
		}
		return h(w, r, v)
	}
}

func (a *API) user(r *http.Request) (account.Principal, error) {
	if name, password, ok := r.BasicAuth(); ok {
		return a.service.Authenticate(r.Context(), name, password, request.Address(r, a.o.TrustedProxies))
	}
	if v, ok, err := a.session(r); ok || err != nil {
		return v, err
	}
	return account.Principal{}, &refusal.Error{Kind: refusal.KindUnauthorized, Message: "A name and a password are required."}
}

// session returns the user of the pages' cookie. State-changing requests require the
// session's CSRF token, which another site cannot know.
func (a *API) session(r *http.Request) (v account.Principal, ok bool, err error) {
	cookie, err := r.Cookie(account.SessionCookie)
	if err != nil {
		return v, false, nil //nolint:nilerr // no cookie is no session
	}
	v, s, err := a.service.SessionViewer(r.Context(), cookie.Value)
	if err != nil {
		return v, false, err
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && !sameToken(s.CSRF, r.Header.Get("X-CSRF-Token")) {
		return v, false, &refusal.Error{Kind: refusal.KindForbidden, Message: "The header X-CSRF-Token must hold the session's CSRF token, which each page has in its forms (csrf)."}
	}
	return v, true, nil
}

func sameToken(want, got string) bool {
	return want != "" && subtle.ConstantTimeCompare([]byte(want), []byte(got)) == 1
}

// wrongToken counts a wrong token, and makes the answer 429 once its address has sent many of them. It returns any other error as it is.
func (a *API) wrongToken(r *http.Request, err error) error {
	var e *refusal.Error
	if !errors.As(err, &e) || e.Kind != refusal.KindUnauthorized || e.Field != "token" {
		return err
	}
	wait := a.service.WrongToken(request.Address(r, a.o.TrustedProxies))
	if wait == 0 {
		return err
	}
	return &refusal.Error{Kind: refusal.KindRateLimited, Field: "token", Message: e.Message + " Too many wrong tokens came from this address.", RetryAfter: wait}
}

// mayBePassword reports whether what was refused as a token may be a user's password. An error of the database decides nothing: to ask it once
// more only takes time.
func mayBePassword(r *http.Request, err error) bool {
	_, _, ok := r.BasicAuth()
	return ok && refusal.KindOf(err) == refusal.KindUnauthorized
}

// forViewer admits applications by their token as well.
func (a *API) forViewer(h userHandler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		token, err := protocol.TokenOf(r)
		if err != nil {
			return err
		}
		if token != "" {
			v, err := a.service.TokenViewer(r.Context(), token)
			if err == nil {
				return h(w, r, v)
			}
			if !mayBePassword(r, err) {
				return a.wrongToken(r, err)
			}
		}
		return a.forUser(h)(w, r)
	}
}

// forReader admits clients by their token, and users, who read here what clients do: what their own
// applications send.
func (a *API) forReader(h userHandler) handler {
	return a.byClient(h, a.forUser(func(w http.ResponseWriter, r *http.Request, v account.Principal) error {
		v.Admin = false
		return h(w, r, v)
	}))
}

// byClient admits clients by their token, or by the cookie of a login. Another handler takes all other requests: some paths have one meaning for Gotify's
// clients, and another for users and applications.
func (a *API) byClient(h userHandler, other handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		token, cookie, err := a.clientToken(r)
		if cookie && err != nil {
			return err
		}
		if err != nil || !account.IsClientToken(token) {
			return other(w, r) // which complains of two tokens if it takes tokens
		}
		v, err := a.service.ClientViewer(r.Context(), token)
		if err == nil {
			return h(w, r, v)
		}
		if mayBePassword(r, err) {
			return other(w, r)
		}
		return a.wrongToken(r, err)
	}
}
