package web

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"slipway/relay/internal/account"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
	ui "slipway/shared/web"
)

// open serves requests without a session. Forms of other sites are refused.
func (web *Web) open(h func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := web.origins.Own(r); err != nil {
			web.fail(w, r, err)
			return
		}
		ui.BoundForm(w, r)
		if err := h(w, r); err != nil {
			web.fail(w, r, err)
		}
	})
}

// closed serves users who have logged in and sends others to the login page.
// State-changing requests require the session's CSRF token.
func (web *Web) closed(h handler) http.Handler {
	return web.open(func(w http.ResponseWriter, r *http.Request) error {
		v, err := web.sessionRequest(r)
		if refusal.KindOf(err) == refusal.KindUnauthorized {
			http.Redirect(w, r, "/ui/login"+ui.NextQuery(r, "/ui"), http.StatusSeeOther)
			return nil
		}
		if err != nil {
			return err
		}
		if r.Method == http.MethodPost {
			if err := parseForm(r); err != nil {
				return err
			}
			if !ui.FromSession(r, v.session.CSRF) {
				return &refusal.Error{Kind: refusal.KindForbidden, Message: "This form is out of date. Go back, load the page again and send it once more."}
			}
		}
		return h(w, v)
	})
}

// parseForm reads a form.
func parseForm(r *http.Request) error {
	switch err := ui.ParseForm(r); {
	case err == nil:
		return nil
	case errors.Is(err, ui.ErrFormTooLarge):
		return &refusal.Error{Kind: refusal.KindTooLarge, Message: fmt.Sprintf("A form may have %d bytes.", ui.MaxForm), Err: err}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &refusal.Error{Kind: refusal.KindTimeout, Message: "The form took too long to arrive. Send it once more.", Err: err}
	default:
		return &refusal.Error{Kind: refusal.KindInvalid, Message: "The form cannot be read.", Err: err}
	}
}

func (web *Web) sessionRequest(r *http.Request) (*sessionRequest, error) {
	cookie, err := r.Cookie(account.SessionCookie)
	if err != nil {
		return nil, &refusal.Error{Kind: refusal.KindUnauthorized, Message: "Log in first."}
	}
	viewer, session, err := web.service.SessionViewer(r.Context(), cookie.Value)
	if err != nil {
		return nil, err
	}
	return &sessionRequest{Request: r, Principal: viewer, session: session}, nil
}

type loginPage struct {
	frame
	User     string
	Next     string
	Provider string // the name of the identity provider; "" for none
}

func (web *Web) loginPage(user, next string) loginPage {
	p := loginPage{frame: web.frame(nil, "", "Log in"), User: user, Next: next}
	if web.o.SignIn != nil {
		p.Provider = web.o.SignIn.Name
	}
	return p
}

func (web *Web) getLogin(w http.ResponseWriter, r *http.Request) error {
	if _, err := web.sessionRequest(r); err == nil {
		http.Redirect(w, r, "/ui/", http.StatusSeeOther)
		return nil
	}
	p := web.loginPage("", r.URL.Query().Get("next"))
	p.Notice = notices[r.URL.Query().Get("done")]
	return web.show(w, http.StatusOK, "login", p)
}

func (web *Web) postLogin(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(r); err != nil {
		return err
	}
	name, password := r.PostForm.Get("name"), r.PostForm.Get("password")
	session, err := web.service.Login(r.Context(), name, password, request.Address(r, web.o.TrustedProxies))
	if err != nil {
		p := web.loginPage(name, r.PostForm.Get("next"))
		status, fault := p.fail(w, err)
		if fault != nil {
			return fault
		}
		return web.show(w, status, "login", p)
	}
	web.endSession(r)
	web.setCookie(w, r, session)
	http.Redirect(w, r, ui.OwnPage(r.PostForm.Get("next"), "/ui"), http.StatusSeeOther)
	return nil
}

// endSession ends the session of a request. On an error the session expires by itself.
func (web *Web) endSession(r *http.Request) {
	if old, err := r.Cookie(account.SessionCookie); err == nil {
		_ = web.service.Logout(r.Context(), old.Value)
	}
}

// secure reports whether browsers reach the pages over HTTPS. The public URL decides
// even if the proxy in front is not a trusted one.
func (web *Web) secure(r *http.Request) bool {
	return strings.HasPrefix(web.o.PublicURL, "https://") || request.Secure(r, web.o.TrustedProxies)
}

func (web *Web) setCookie(w http.ResponseWriter, r *http.Request, s account.Session) {
	ui.SetCookie(w, http.Cookie{Name: account.SessionCookie, Value: s.Token, Path: "/", Expires: s.Expires, Secure: web.secure(r)})
}

func (web *Web) postLogout(w http.ResponseWriter, v *sessionRequest) error {
	web.endSession(v.Request)
	ui.SetCookie(w, http.Cookie{Name: account.SessionCookie, Path: "/", Secure: web.secure(v.Request)})
	http.Redirect(w, v.Request, "/ui/login?done=loggedout", http.StatusSeeOther)
	return nil
}

// back redirects after a successful form.
func back(w http.ResponseWriter, v *sessionRequest, path, done string) error {
	http.Redirect(w, v.Request, path+"?done="+done, http.StatusSeeOther)
	return nil
}
