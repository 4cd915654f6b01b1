package web

import (
	"errors"
	"net/http"

	"go.uber.org/zap"

	"slipway/relay/internal/account"
	"slipway/relay/internal/request"
	"slipway/shared/oidclogin"
	ui "slipway/shared/web"
)

// SignIn is an identity provider where people can log in.
type SignIn struct {
	Provider   *oidclogin.Provider
	Name       string // on the login page
	Issuer     string
	ServerName string // of people's Matrix IDs; "" for a provider whose names are Matrix IDs
	Create     bool   // a user for a person whose Matrix ID no user has
}

// callback is the URL to which browsers come back from the provider.
func (web *Web) callback(r *http.Request) string { return web.base(r) + "/ui/login/callback" }

func (web *Web) getProvider(w http.ResponseWriter, r *http.Request) error {
	if err := web.o.SignIn.Provider.Begin(w, r, web.callback(r), r.URL.Query().Get("next")); err != nil {
		return web.refuseLogin(w, r, err)
	}
	return nil
}

func (web *Web) getCallback(w http.ResponseWriter, r *http.Request) error {
	forgive := func() {}
	who, next, err := web.o.SignIn.Provider.Finish(w, r, web.callback(r), func() (err error) {
		forgive, err = web.service.AttemptFrom(request.Address(r, web.o.TrustedProxies))
		return err
	})
	if err != nil {
		return web.refuseLogin(w, r, err)
	}
	id, _ := account.MatrixIDOf(who.Name, web.o.SignIn.ServerName) // the provider's names are checked
	session, err := web.service.LogInPerson(r.Context(), account.Person{Issuer: web.o.SignIn.Issuer, Subject: who.Subject, MatrixID: id}, web.o.SignIn.Create)
	if err != nil {
		return web.refuseLogin(w, r, err)
	}
	forgive()
	web.endSession(r)
	web.setCookie(w, r, session)
	http.Redirect(w, r, ui.OwnPage(next, "/ui"), http.StatusSeeOther)
	return nil
}

// refuseLogin shows the login page again, and logs why.
func (web *Web) refuseLogin(w http.ResponseWriter, r *http.Request, err error) error {
	p := web.loginPage("", "")
	status := http.StatusForbidden
	var refused *oidclogin.RefusedError
	var fault error
	switch {
	case errors.As(err, &refused):
		p.Problem = refused.Reason
	case errors.Is(err, oidclogin.ErrUnavailable):
		status, p.Problem = http.StatusBadGateway, "The identity provider cannot be reached. Try again in some seconds."
	default:
		if status, fault = p.fail(w, err); fault != nil {
			return fault
		}
	}
	web.log.Warn("a login at the identity provider failed", zap.String("address", request.Address(r, web.o.TrustedProxies)), zap.Error(err))
	return web.show(w, status, "login", p)
}
