// Package web serves the relay's pages for people. They are rendered on the server, work
// without script, and use the same rules as the API.
package web

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/gorilla/mux"
	"go.uber.org/zap"

	"slipway/docs"
	"slipway/relay/internal/account"
	"slipway/relay/internal/doctor"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
	"slipway/relay/internal/service"
	ui "slipway/shared/web"
)

// Options configure a [Web].
type Options struct {
	Service        *service.Service
	Doctor         doctor.Target
	Log            *zap.Logger
	Version        string
	Homeserver     string        // URL, shown to administrators
	PublicURL      string        // where senders reach the relay; "" takes it from the request
	Retention      time.Duration // how long final messages are kept; 0 means forever
	Mail           Mail
	SignIn         *SignIn        // nil for logins with a password only
	AdminName      string         // of the configuration
	TrustedProxies []netip.Prefix // their X-Forwarded-… headers are believed
}

// Web serves everything under /ui/. It is safe for concurrent use.
type Web struct {
	o       Options
	service *service.Service
	log     *zap.Logger
	pages   *ui.Pages
	help    *ui.Help
	origins request.Origins
	handler http.Handler
}

// New makes the pages from the embedded templates.
func New(o Options) (*Web, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	w := &Web{o: o, service: o.Service, log: o.Log}
	var err error
	if w.origins, err = request.NewOrigins(o.PublicURL); err != nil {
		return nil, err
	}
	if w.pages, err = parsePages(o.Version); err != nil {
		return nil, err
	}
	w.help = w.pages.Help(docs.Files, "relay")
	w.handler = w.router()
	return w, nil
}

// ServeHTTP answers one request.
func (web *Web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ui.Protect(w.Header())
	web.handler.ServeHTTP(w, r)
}

// sessionRequest is a request with a valid session.
type sessionRequest struct {
	*http.Request
	account.Principal
	session account.Session
}

func (v *sessionRequest) ctx() context.Context { return v.Context() }

// handler answers a session request or returns why it cannot.
type handler func(http.ResponseWriter, *sessionRequest) error

func (web *Web) router() http.Handler {
	const get, head, post = http.MethodGet, http.MethodHead, http.MethodPost
	router := mux.NewRouter().SkipClean(true)
	open := func(method, path string, h func(http.ResponseWriter, *http.Request) error) {
		router.Path("/ui" + path).Methods(methods(method)...).Handler(web.open(h))
	}
	closed := func(method, path string, h handler) {
		router.Path("/ui" + path).Methods(methods(method)...).Handler(web.closed(h))
	}
	open(get, "/static/{name}", web.getStatic)
	open(get, "/help", web.getHelp)
	open(get, "/help/{file:.*}", web.getHelp)
	open(get, "/login", web.getLogin)
	open(post, "/login", web.postLogin)
	if web.o.SignIn != nil {
		open(get, "/login/provider", web.getProvider)
		open(get, "/login/callback", web.getCallback)
	}
	closed(post, "/logout", web.postLogout)
	closed(get, "/", web.getDashboard)

	closed(get, "/applications", web.getApplications)
	closed(get, "/applications/new", web.getNewApplication)
	closed(post, "/applications/new", web.postNewApplication)
	closed(get, "/applications/{id:[0-9]+}", web.getApplication)
	closed(post, "/applications/{id:[0-9]+}", web.postApplication)
	closed(post, "/applications/{id:[0-9]+}/token", web.postToken)
	closed(post, "/applications/{id:[0-9]+}/preview", web.postPreview)
	closed(post, "/applications/{id:[0-9]+}/test", web.postTest)
	closed(get, "/applications/{id:[0-9]+}/image", web.getImage)
	closed(post, "/applications/{id:[0-9]+}/image", web.postImage)
	closed(get, "/applications/{id:[0-9]+}/delete", web.getDeleteApplication)
	closed(post, "/applications/{id:[0-9]+}/delete", web.postDeleteApplication)

	closed(get, "/messages", web.getMessages)
	closed(get, "/messages/all", web.getAll)
	closed(post, "/messages/all", web.postAll)
	closed(get, "/messages/{id:[0-9]+}", web.getMessage)
	closed(post, "/messages/{id:[0-9]+}/redeliver", web.postRedeliver)
	closed(post, "/messages/{id:[0-9]+}/acknowledge", web.postAcknowledge)
	closed(get, "/messages/{id:[0-9]+}/withdraw", web.getCancel)
	closed(post, "/messages/{id:[0-9]+}/withdraw", web.postCancel)

	closed(get, "/rooms", web.getRooms)
	closed(post, "/rooms/retry", web.postRetryRoom)

	closed(get, "/users", web.getUsers)
	closed(get, "/users/new", web.getNewUser)
	closed(post, "/users/new", web.postNewUser)
	closed(get, "/users/{id:[0-9]+}", web.getUser)
	closed(post, "/users/{id:[0-9]+}", web.postUser)
	closed(get, "/users/{id:[0-9]+}/delete", web.getDeleteUser)
	closed(post, "/users/{id:[0-9]+}/delete", web.postDeleteUser)

	closed(get, "/account", web.getAccount)
	closed(post, "/account", web.postAccount)
	closed(post, "/account/password", web.postPassword)
	closed(post, "/clients", web.postClient)
	closed(post, "/clients/{id:[0-9]+}", web.postRenameClient)
	closed(get, "/clients/{id:[0-9]+}/delete", web.getDeleteClient)
	closed(post, "/clients/{id:[0-9]+}/delete", web.postDeleteClient)

	router.NotFoundHandler = web.open(func(http.ResponseWriter, *http.Request) error {
		return &refusal.Error{Kind: refusal.KindNotFound, Message: "There is no such page."}
	})
	router.MethodNotAllowedHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", get+", "+head)
		web.showError(w, r, http.StatusMethodNotAllowed, "This address is reached by a form only.")
	})
	return router
}

func methods(m string) []string {
	if m == http.MethodGet {
		return []string{m, http.MethodHead}
	}
	return []string{m}
}
