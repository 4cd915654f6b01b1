package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/access"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/identity/signin"
	ui "slipway/shared/web"
)

const (
	attemptCookie   = "registry_login"
	attemptLifetime = 10 * time.Minute
)

// attempt is a login at the provider that has begun, in a cookie of its own.
type attempt struct {
	signin.Attempt
	Next    string
	Expires time.Time
}

// callback is the path to which browsers come back from the provider.
func (web *Web) callback(r *http.Request) string { return web.o.API.Root(r) + "/ui/login/callback" }

func (web *Web) getProvider(w http.ResponseWriter, v *visit) error {
	if web.o.Provider == nil {
		return errNoPage
	}
	to, begun, err := web.o.Provider.Begin(v.Context(), web.callback(v.Request))
	if err != nil {
		return web.refuseLogin(w, v, err)
	}
	a := attempt{Attempt: begun, Next: ui.OwnPage(v.URL.Query().Get("next"), web.base), Expires: time.Now().Add(attemptLifetime)}
	content, err := json.Marshal(a)
	if err != nil {
		return err
	}
	value, err := web.o.Sessions.Seal("login", content)
	if err != nil {
		return err
	}
	ui.SetCookie(w, http.Cookie{Name: attemptCookie, Value: value, Path: web.base + "/login/", Expires: a.Expires, Secure: web.secure(v.Request)})
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, v.Request, to, http.StatusSeeOther)
	return nil
}

// begun reads the attempt that the browser has kept; the zero attempt if it has none.
func (web *Web) begun(r *http.Request) (a attempt) {
	cookie, err := r.Cookie(attemptCookie)
	if err != nil {
		return a
	}
	content, ok := web.o.Sessions.Open("login", cookie.Value)
	if !ok || json.Unmarshal(content, &a) != nil || time.Now().After(a.Expires) {
		return attempt{}
	}
	return a
}

func (web *Web) getCallback(w http.ResponseWriter, v *visit) error {
	if web.o.Provider == nil {
		return errNoPage
	}
	a := web.begun(v.Request)
	ui.SetCookie(w, http.Cookie{Name: attemptCookie, Path: web.base + "/login/", Secure: web.secure(v.Request)})
	who, err := web.o.Provider.Finish(v.Context(), web.callback(v.Request), a.Attempt, v.URL.Query().Get)
	if err != nil {
		return web.refuseLogin(w, v, err)
	}
	s, err := web.o.Auth.LogInPerson(v.Context(), who.Name, who.Subject, who.Groups, who.MoreGroups)
	web.noteLogin(w, v, s, (&access.Caller{Kind: s.Kind, Name: s.Name}).String(), err)
	if err != nil {
		return err
	}
	if web.o.Auth.LacksGroups(&access.Caller{Kind: access.Person, Groups: who.Groups}) {
		web.o.Log.Warn("the identity provider names no group of a person, and rules are for groups: look at auth.oidc.groupsclaim and auth.oidc.scopes",
			zap.String("auth.user.name", who.Name))
	}
	if err := web.keep(w, v.Request, newSession(s)); err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, v.Request, a.Next, http.StatusSeeOther)
	return nil
}

// refuseLogin shows the login page again, and logs why.
func (web *Web) refuseLogin(w http.ResponseWriter, v *visit, err error) error {
	p := web.loginPage(v, "", "")
	status, reason := http.StatusBadGateway, "The identity provider cannot be reached. Try again in some seconds."
	var refused *signin.RefusedError
	switch {
	case errors.As(err, &refused):
		status, reason = http.StatusForbidden, refused.Reason
		web.noteLogin(w, v, auth.Session{}, "", &auth.Refusal{Reason: auth.ProviderRefused, Cause: err})
	case !errors.Is(err, signin.ErrUnavailable):
		return err
	}
	web.o.Log.Warn("a login at the identity provider failed", zap.Error(err))
	p.Problem = reason
	return web.pages.Show(w, status, "login", p)
}
