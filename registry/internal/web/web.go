// Package web serves the registry's pages for people. They are rendered on the server, work
// without script, and show and change nothing that the same caller could not by the API.
package web

import (
	"context"
	"embed"
	"net/http"
	"time"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/docs"
	"slipway/registry/internal/audit"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/cache"
	"slipway/registry/internal/identity/robot"
	"slipway/registry/internal/identity/session"
	"slipway/registry/internal/maintenance/retention"
	"slipway/registry/internal/maintenance/schedule"
	"slipway/registry/internal/membudget"
	"slipway/registry/internal/notify"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pageindex"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/signature"
	"slipway/registry/internal/web/imageinfo"
	"slipway/registry/internal/web/scanreport"
	"slipway/shared/health"
	"slipway/shared/oidclogin"
	ui "slipway/shared/web"
)

//go:embed templates static
var files embed.FS

var pageNames = []string{"login", "error", "repositories", "repository", "image", "compare", "account", "confirm", "delete", "untagged", "access", "robots", "trash", "deleted", "history", "usage", "state", "acts", "tokens", "users", "retention", "maintenance"}

// API makes the changes of the pages, and notes what they send.
type API interface {
	// PagesBase is the path before those of all pages, as browsers see it.
	PagesBase() string
	// Root is the URL by which clients reach the registry, without /v2/.
	Root(r *http.Request) string
	// Act makes a request for a change. The error is what a client would have been told.
	Act(from *http.Request, grant *auth.Grant, method, path, contentType string, body []byte) (http.Header, []byte, error)
	// Download calls send, which sends a blob, and notes it like a client's GET.
	Download(w http.ResponseWriter, from *http.Request, grant *auth.Grant, name oci.Name, d oci.Digest, size int64, send func())
}

// Options configure a [Web].
type Options struct {
	Registry *registry.Registry
	Auth     *auth.Authorizer // nil = everybody may do everything
	API      API
	Index    *pageindex.Index                               // sizes and dates for lists; nil = lists show none
	Caches   func(oci.Name) bool                            // whether a repository is a cache of another registry; nil = none is
	Provider *oidclogin.Provider                            // where people log in; nil = at no provider
	Robots   *robot.Accounts                                // nil = there are none
	Users    *auth.Accounts                                 // nil = there is no password file
	Health   *health.Monitor                                // nil = there are no checks
	Events   *notify.Notifier                               // nil = there are none
	Metrics  prometheus.Gatherer                            // nil = none
	Refused  func(auth.Reason)                              // counts logins that failed; nil = nothing does
	Audit    *audit.Log                                     // nil = none
	Board    *schedule.Board                                // of the jobs; nil = there are none
	Plan     func(context.Context) (*retention.Plan, error) // what retention would delete, made one at a time; nil = it has no rules
	Sessions *session.Sessions                              // signs sessions, at all replicas alike
	Log      *zap.Logger
	Version  string

	ProviderName string // on the login page
	AuditFile    string // of the audit log, "" = it is in none

	Signatures *signature.Policy // nil = there is none

	DeleteEnabled, ReadOnly bool
	RetentionDryRun         bool          // retention deletes nothing
	KeepDeleted             time.Duration // how long a deletion can be undone, 0 = it can't
}

// Web serves everything below /ui/. It is safe for concurrent use.
type Web struct {
	o       Options
	base    string
	pages   *ui.Pages
	help    *ui.Help
	names   *names
	images  *imageinfo.Reader
	reports *cache.Cache[string, *scanreport.Report] // by repository and digest; nil = unreadable
	memory  *membudget.Budget
	handler http.Handler
}

// New makes the pages.
func New(o Options) (*Web, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Caches == nil {
		o.Caches = func(oci.Name) bool { return false }
	}
	w := &Web{
		o: o, base: o.API.PagesBase(), images: imageinfo.NewReader(), memory: membudget.New(pagesMemory, pagesShare),
		reports: cache.New[string, *scanreport.Report](maxRemembered),
	}
	w.names = newNames(o.Registry, o.Index, o.Log)
	var err error
	w.pages, err = ui.New(ui.Options{Brand: "Registry", Version: o.Version, Base: w.base, Files: files, Names: pageNames, Words: words(w.base)})
	if err != nil {
		return nil, err
	}
	w.help = w.pages.Help(docs.Files, "registry")
	w.handler = w.router()
	return w, nil
}

// Close ends what happens in the background. No request may come after.
func (web *Web) Close() error {
	web.names.close()
	return nil
}

// ServeHTTP answers one request, whose path begins with /ui/.
func (web *Web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ui.Protect(w.Header())
	web.handler.ServeHTTP(w, r)
}

// handler answers the request of a visitor or returns why it cannot.
type handler func(http.ResponseWriter, *visit) error

// Paths of a repository and its content. No name contains a colon or an at sign.
const (
	inRepository = "/{name:[^:@]+}"
	inImage      = "/{name:[^:@]+}{sign:[:@]}{reference:[^/]+}"
)

func (web *Web) router() http.Handler {
	const get, post = http.MethodGet, http.MethodPost
	router := mux.NewRouter().SkipClean(true)
	page := func(method, path string, h handler) {
		methods := []string{method}
		if method == get {
			methods = append(methods, http.MethodHead)
		}
		router.Path("/ui" + path).Methods(methods...).Handler(web.open(h))
	}
	router.Path("/ui/static/{file}").Methods(get, http.MethodHead).HandlerFunc(web.getStatic)
	page(get, "/help", web.getHelp)
	page(get, "/help/{file:.*}", web.getHelp)
	page(get, "/login", web.getLogin)
	page(post, "/login", web.postLogin)
	page(post, "/logout", web.postLogout)

	page(get, "/login/provider", web.getProvider)
	page(get, "/login/callback", web.getCallback)
	page(get, "/account", web.getAccount)
	page(post, "/account/tokens", web.postToken)
	page(post, "/account/tokens/{token:[0-9a-f]+}/revoke", web.postRevokeToken)

	page(post, "/account/password", web.postPassword)

	page(get, "/users", web.getUsers)
	page(post, "/users", web.postUsers)
	page(post, "/users/{user:[^/]+}/{act:reset|disable|enable|delete}", web.postUser)

	page(get, "/tokens", web.getTokens)
	page(post, "/tokens/revoke", web.postRevokeOwned)

	page(get, "/", web.getRepositories)
	page(get, "/repository"+inRepository, web.getRepository)
	page(get, "/untagged"+inRepository, web.getUntagged)
	page(get, "/image"+inImage, web.getImage)
	page(get, "/compare"+inRepository, web.getCompare)
	page(get, "/download"+inImage, web.getDownload)

	page(get, "/delete"+inRepository, web.getDelete)
	page(post, "/delete"+inRepository, web.postDelete)
	page(get, "/delete"+inImage, web.getDelete)
	page(post, "/delete"+inImage, web.postDelete)
	page(post, "/tag"+inImage, web.postTag)

	page(get, "/trash", web.getTrash)
	page(get, "/trash"+inRepository, web.getDeleted)
	page(post, "/restore"+inRepository, web.postRestore)
	page(get, "/history"+inImage, web.getHistory)

	page(get, "/usage", web.getUsage)
	page(get, "/state", web.getState)
	page(get, "/maintenance", web.getMaintenance)
	page(post, "/maintenance", web.postStart)
	page(get, "/retention", web.getRetention)
	page(get, "/audit", web.getActs)
	page(get, "/access", web.getAccess)
	page(get, "/robots", web.getRobots)
	page(post, "/robots", web.postRobots)
	page(post, "/robots/{robot:[a-z0-9._-]+}/secret", web.postRotateRobot)
	page(post, "/robots/{robot:[a-z0-9._-]+}/revoke", web.postRevokeRobot)

	router.NotFoundHandler = web.open(func(http.ResponseWriter, *visit) error { return errNoPage })
	router.MethodNotAllowedHandler = web.open(func(w http.ResponseWriter, v *visit) error {
		w.Header().Set("Allow", "GET, HEAD")
		return &refusal{http.StatusMethodNotAllowed, "This address is reached by a form only."}
	})
	return router
}

// getStatic serves what caches may keep for everybody: it sets no cookie.
func (web *Web) getStatic(w http.ResponseWriter, r *http.Request) {
	asset, ok := web.pages.Asset(mux.Vars(r)["file"])
	if !ok {
		http.NotFound(w, r)
		return
	}
	asset.ServeHTTP(w, r)
}
