package api

import (
	"net/http"
	"strings"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

const (
	clientCookie = "gotify-client-token" // as Gotify names it
	loginKept    = 7 * 24 * time.Hour    // without use
)

// logInClient makes a client for a user who logs in with a browser, as Gotify 3 does, and answers with its token in a cookie. The answer to
// a wrong password has no challenge for which a browser would ask the user.
func (a *API) logInClient(w http.ResponseWriter, r *http.Request) error {
	if err := a.o.Origins.Own(r); err != nil {
		return err
	}
	name, password, ok := r.BasicAuth()
	if !ok {
		return &refusal.Error{Kind: refusal.KindUnauthorized, Message: "A name and a password are required, as Basic authentication."}
	}
	v, err := a.service.Authenticate(r.Context(), name, password, request.Address(r, a.o.TrustedProxies))
	if err != nil {
		return err
	}
	label, _, err := a.clientFields(r)
	if err != nil {
		return err
	}
	c, err := a.service.CreateClient(r.Context(), v, label, loginKept)
	if err != nil {
		return err
	}
	a.setClientCookie(w, r, c.Token)
	v.ClientID = c.ID
	return a.showCurrentUser(w, r, v)
}

// logOutClient deletes the client that asks, and its cookie.
func (a *API) logOutClient(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	a.setClientCookie(w, r, "")
	if v.ClientID == 0 {
		return refusal.Forbidden("Only a client logs out.")
	}
	return answer(w, done{true}, a.service.DeleteClient(r.Context(), v, v.ClientID))
}

// getCurrentUser answers with the user as Gotify's clients read it, and extends a login.
func (a *API) getCurrentUser(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	if token, cookie, _ := a.clientToken(r); cookie {
		a.setClientCookie(w, r, token)
	}
	return a.showCurrentUser(w, r, v)
}

func (a *API) showCurrentUser(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	u, err := a.service.User(r.Context(), v, v.UserID)
	return answer(w, struct {
		ID        int64     `json:"id"`
		Name      string    `json:"name"`
		Admin     bool      `json:"admin"`
		CreatedAt time.Time `json:"createdAt"`
		ClientID  int64     `json:"clientId,omitempty"`
	}{u.ID, u.Name, u.Admin, u.CreatedAt.UTC(), v.ClientID}, err)
}

// setClientCookie sets the cookie of a login; an empty token deletes it.
func (a *API) setClientCookie(w http.ResponseWriter, r *http.Request, token string) {
	c := &http.Cookie{
		Name: clientCookie, Value: token, Path: "/", MaxAge: int(loginKept / time.Second), HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: strings.HasPrefix(a.o.PublicURL, "https://") || request.Secure(r, a.o.TrustedProxies),
	}
	if token == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// clientToken returns the token of a request, "" if it has none, and whether it is the cookie of a login. Browsers send cookies
// also with requests of other sites; those are refused.
func (a *API) clientToken(r *http.Request) (token string, cookie bool, err error) {
	if token, err = protocol.TokenOf(r); token != "" || err != nil {
		return token, false, err
	}
	if token = cookieToken(r); token == "" {
		return "", false, nil
	}
	return token, true, a.o.Origins.Own(r)
}

// cookieToken returns the client's token in the cookie of a login, "" if there is none.
func cookieToken(r *http.Request) string {
	c, err := r.Cookie(clientCookie)
	if err != nil || !account.IsClientToken(c.Value) {
		return ""
	}
	return c.Value
}
