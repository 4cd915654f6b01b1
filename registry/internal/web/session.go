package web

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/access"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/identity/session"
	"slipway/registry/internal/oci"
	ui "slipway/shared/web"
)

const (
	sessionCookie = "registry_session"
	// clockSkew is the most by which the clock of another replica may be ahead.
	clockSkew = 5 * time.Minute
	// cookieLasts is the time for which a browser keeps the cookie of a session that has expired, which tells it from a
	// visitor who never logged in.
	cookieLasts = 30 * 24 * time.Hour
)

// visit is a request of a page with what its sender may do.
type visit struct {
	*http.Request
	grant *auth.Grant // nil = everybody may do everything
	csrf  string      // "" without a session
	nonce []byte      // of the session
	ended bool        // the browser has a session that has ended
}

// may reports whether the visitor has the right in a repository.
func (v *visit) may(want access.Rights, name oci.Name) bool {
	return v.grant == nil || v.grant.May(want.Needs(), name)
}

// user returns the visitor's name, "" if unknown.
func (v *visit) user() string {
	if v.grant == nil {
		return ""
	}
	return v.grant.User
}

// visitSession is the content of the cookie. It is signed, so that all replicas know it without storing it.
type visitSession struct {
	auth.Session
	Nonce   []byte
	Expires time.Time
}

// seal signs a session.
func (web *Web) seal(s visitSession) (string, error) {
	content, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	return web.o.Sessions.Seal("session", content)
}

// unseal reads what seal wrote; ok is false for anything else, after expiry, and for a session that
// would last longer than any that seal was given.
func (web *Web) unseal(value string) (s visitSession, ok bool) {
	content, ok := web.o.Sessions.Open("session", value)
	if !ok || json.Unmarshal(content, &s) != nil {
		return visitSession{}, false
	}
	left := time.Until(s.Expires)
	return s, left > 0 && left <= session.Lifetime+clockSkew
}

// csrf is the token in the forms of a session. Pages of other sites can't read the nonce.
func (s *visitSession) csrf() string {
	sum := sha256.Sum256(append([]byte("form\x00"), s.Nonce...))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// open identifies the visitor, and requires the session's CSRF token with forms. A visitor whose
// session has ended is not logged in, and is sent to the login where that would be refused.
func (web *Web) open(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ui.BoundForm(w, r)
		v := &visit{Request: r}
		err := web.identify(w, v)
		if err == nil && r.Method == http.MethodPost {
			err = web.checkForm(v)
		}
		if err == nil {
			err = h(w, v)
		}
		if err == nil {
			return
		}
		if status, _ := problem(err); v.ended && web.canLogIn() && (status == http.StatusNotFound || status == http.StatusForbidden) {
			http.Redirect(w, r, web.base+"/login"+ui.NextQuery(web.outside(r), web.base), http.StatusSeeOther)
			return
		}
		web.fail(w, v, err)
	})
}

func (web *Web) identify(w http.ResponseWriter, v *visit) error {
	var s visitSession
	known := false
	if cookie, err := v.Cookie(sessionCookie); err == nil && cookie.Value != "" {
		s, known = web.unseal(cookie.Value)
		v.ended = !known
	}
	if web.o.Auth == nil {
		if !known { // forms need a token also without logins
			s = newSession(auth.Session{})
			if err := web.keep(w, v.Request, s); err != nil {
				return err
			}
		}
		v.csrf = s.csrf()
		return nil
	}
	if known {
		ended, err := web.o.Sessions.Ended(v.Context(), s.Nonce)
		if err != nil {
			return err
		}
		if ended {
			s, known, v.ended = visitSession{}, false, true
		}
	}
	grant, err := web.o.Auth.Resume(v.Request, s.Session)
	if err != nil {
		var refused *auth.Refusal
		if !errors.As(err, &refused) || refused.RetryAfter > 0 {
			return err
		}
		s, known, v.ended = visitSession{}, false, v.ended || known
		if grant, err = web.o.Auth.Resume(v.Request, s.Session); err != nil {
			return err
		}
	}
	v.grant = &grant
	if known {
		v.csrf, v.nonce = s.csrf(), s.Nonce
	}
	return nil
}

func newSession(who auth.Session) visitSession {
	s := visitSession{Session: who, Nonce: make([]byte, 16), Expires: time.Now().Add(session.Lifetime).Truncate(time.Second)}
	_, _ = rand.Read(s.Nonce) // never fails
	return s
}

// keep gives the browser a session.
func (web *Web) keep(w http.ResponseWriter, r *http.Request, s visitSession) error {
	value, err := web.seal(s)
	if err == nil {
		ui.SetCookie(w, http.Cookie{Name: sessionCookie, Value: value, Path: web.base, Expires: s.Expires.Add(cookieLasts), Secure: web.secure(r)})
	}
	return err
}

// secure reports whether browsers reach the pages over HTTPS.
func (web *Web) secure(r *http.Request) bool {
	return strings.HasPrefix(web.o.API.Root(r), "https://")
}

// checkForm reads a form and requires that it is the session's. The form of the login needs no
// session; the API refuses those of other sites.
func (web *Web) checkForm(v *visit) error {
	switch err := ui.ParseForm(v.Request); {
	case errors.Is(err, ui.ErrFormTooLarge):
		return &refusal{http.StatusRequestEntityTooLarge, "The form is too large."}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &refusal{http.StatusRequestTimeout, "The form took too long to arrive. Send it once more."}
	case err != nil:
		return &refusal{http.StatusBadRequest, "The form cannot be read."}
	case v.URL.Path != "/ui/login" && !ui.FromSession(v.Request, v.csrf):
		return &refusal{http.StatusForbidden, "This form is out of date. Go back, load the page again and send it once more."}
	}
	return nil
}

type loginPage struct {
	frame
	User, Next string
	Password   bool   // users can log in with a password
	Provider   string // the name of the provider where people can log in; "" = none
}

func (web *Web) loginPage(v *visit, user, next string) loginPage {
	p := loginPage{frame: web.frame(v, "", "Log in"), User: user, Next: next, Password: web.o.Auth.CanLogIn()}
	if p.Menu = nil; web.o.Provider != nil {
		p.Provider = web.o.ProviderName
	}
	return p
}

func (web *Web) getLogin(w http.ResponseWriter, v *visit) error {
	if !web.canLogIn() {
		return errNoPage
	}
	return web.pages.Show(w, http.StatusOK, "login", web.loginPage(v, "", v.URL.Query().Get("next")))
}

// canLogIn reports whether there is a way to log in to the pages.
func (web *Web) canLogIn() bool {
	return web.o.Auth != nil && (web.o.Auth.CanLogIn() || web.o.Provider != nil)
}

func (web *Web) postLogin(w http.ResponseWriter, v *visit) error {
	if web.o.Auth == nil || !web.o.Auth.CanLogIn() {
		return errNoPage
	}
	name, next := v.PostForm.Get("name"), v.PostForm.Get("next")
	who, err := web.o.Auth.LogIn(v.Request, name, v.PostForm.Get("password"))
	web.noteLogin(w, v, who, name, err)
	if err != nil {
		p := web.loginPage(v, name, next)
		status, text := http.StatusUnauthorized, "The name or the password is wrong."
		var refused *auth.Refusal
		if !errors.As(err, &refused) {
			return err
		}
		if refused.RetryAfter > 0 {
			status, text = http.StatusServiceUnavailable, "Logging in is not possible at the moment. Try again in some seconds."
		}
		p.Problem = text
		return web.pages.Show(w, status, "login", p)
	}
	if err := web.keep(w, v.Request, newSession(who)); err != nil {
		return err
	}
	http.Redirect(w, v.Request, ui.OwnPage(next, web.base), http.StatusSeeOther)
	return nil
}

// postLogout ends the session at all replicas, and removes it from the browser.
func (web *Web) postLogout(w http.ResponseWriter, v *visit) error {
	if v.nonce != nil {
		if err := web.o.Sessions.End(v.Context(), v.nonce); err != nil {
			web.o.Log.Warn("cannot store that a session has ended: other replicas accept it until it expires, and so does this one after a restart", zap.Error(err))
		}
	}
	ui.SetCookie(w, http.Cookie{Name: sessionCookie, Path: web.base, Secure: web.secure(v.Request)})
	return web.back(w, v, "/", "loggedout")
}

// back redirects after a form.
func (web *Web) back(w http.ResponseWriter, v *visit, path, done string) error {
	http.Redirect(w, v.Request, web.base+path+"?done="+done, http.StatusSeeOther)
	return nil
}
