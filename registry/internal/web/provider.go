package web

import (
	"errors"
	"net/http"
	"strings"
	"unicode"

	"go.uber.org/zap"

	"slipway/registry/internal/access"
	"slipway/registry/internal/auth"
	"slipway/shared/oidclogin"
	ui "slipway/shared/web"
)

// UsableName reports whether rules and texts can name a person of the provider so.
func UsableName(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' || r == ':' || r == '"' })
}

// callback is the URL to which browsers come back from the provider.
func (web *Web) callback(r *http.Request) string { return web.o.API.Root(r) + "/ui/login/callback" }

func (web *Web) getProvider(w http.ResponseWriter, v *visit) error {
	if web.o.Provider == nil {
		return errNoPage
	}
	if err := web.o.Provider.Begin(w, v.Request, web.callback(v.Request), v.URL.Query().Get("next")); err != nil {
		return web.refuseLogin(w, v, err)
	}
	return nil
}

func (web *Web) getCallback(w http.ResponseWriter, v *visit) error {
	if web.o.Provider == nil {
		return errNoPage
	}
	who, next, err := web.o.Provider.Finish(w, v.Request, web.callback(v.Request), nil)
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
	http.Redirect(w, v.Request, ui.OwnPage(next, web.base), http.StatusSeeOther)
	return nil
}

// refuseLogin shows the login page again, and logs why.
func (web *Web) refuseLogin(w http.ResponseWriter, v *visit, err error) error {
	p := web.loginPage(v, "", "")
	status, reason := http.StatusBadGateway, "The identity provider cannot be reached. Try again in some seconds."
	var refused *oidclogin.RefusedError
	switch {
	case errors.As(err, &refused):
		status, reason = http.StatusForbidden, refused.Reason
		web.noteLogin(w, v, auth.Session{}, "", &auth.Refusal{Reason: auth.ProviderRefused, Cause: err})
	case !errors.Is(err, oidclogin.ErrUnavailable):
		return err
	}
	web.o.Log.Warn("a login at the identity provider failed", zap.Error(err))
	p.Problem = reason
	return web.pages.Show(w, status, "login", p)
}
