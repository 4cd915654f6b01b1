// Package api speaks HTTP: the OCI distribution specification 1.1 and the
// Docker Registry HTTP API v2, in a table of routes with one action a row. It
// holds no rule of its own; what may be pushed, and what there is, the registry
// decides.
package api

import (
	"cmp"
	"context"
	"net/http"
	"net/netip"
	"slices"

	"github.com/gorilla/mux"
	"go.uber.org/zap"

	"slipway/registry/internal/access"
	"slipway/registry/internal/api/metrics"
	"slipway/registry/internal/api/urls"
	"slipway/registry/internal/audit"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/clientaddr"
	"slipway/registry/internal/identity/robot"
	"slipway/registry/internal/maintenance/retention"
	"slipway/registry/internal/maintenance/schedule"
	"slipway/registry/internal/membudget"
	"slipway/registry/internal/notify"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pageindex"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/signature"
	"slipway/shared/health"
	"slipway/shared/idempotency"
	"slipway/shared/logging"
)

// Options configures an API.
type Options struct {
	Registry *registry.Registry
	Proxy    Proxy            // pull-through caches around Registry; nil = there are none
	Auth     Authorizer       // nil = everybody may do everything
	Tokens   TokenService     // the built-in token service; nil = there is none
	Robots   *robot.Accounts  // nil = there are none
	Users    *auth.Accounts   // nil = there is no password file
	Rights   *auth.Authorizer // explains rights and has the personal access tokens; nil = there are none
	Index    *pageindex.Index // sizes of repositories; nil = unknown
	Board    *schedule.Board  // of the jobs; nil = there are none
	Limits   *auth.Limits     // nil = none

	Signatures *signature.Policy // for manifests that clients pull; nil = none is needed

	// Plan makes the plan of retention, one at a time; nil = it has no rules.
	Plan func(context.Context) (*retention.Plan, error)

	Audit   *audit.Log // nil = none
	Log     *zap.Logger
	Access  *logging.AccessLog // nil = none
	Metrics *metrics.Requests  // nil = none
	Notify  *notify.Notifier   // takes events of pushes, pulls and deletions; nil = there are none
	Health  *health.Monitor    // while it is not ready every request is 503; nil = always ready

	Prefix       string      // http.prefix
	Host         string      // http.host
	RelativeURLs bool        // http.relativeurls
	Headers      http.Header // added to every answer
	Secret       []byte      // signs the state of uploads, the same at all replicas

	// The proxies whose headers about the address of a client are believed, for logs,
	// events and limits: networks, and peers on a unix socket. If there are any, host and
	// scheme are believed from them only; else from everybody.
	TrustedProxies []netip.Prefix
	TrustUnix      bool

	// Namespaces are further names of this registry, besides Host and those in requests.
	Namespaces []string

	NoRedirect []netip.Prefix // clients that get blobs from here, also where the store gives URLs

	DeleteEnabled   bool
	ReadOnly        bool
	CatalogMax      int   // entries of a catalog page, 0 = 1000
	TagsMax         int   // entries of a page of tags that a client asks for, 0 = 1000
	MaxManifestSize int64 // bytes, 0 = registry.DefaultMaxManifestSize
}

const defaultMaxPage = 1000

// API is the registry's HTTP handler.
type API struct {
	opts    Options
	links   urls.Builder
	signer  urls.Signer
	headers []commonHeader
	answers *membudget.Budget // of large answers
	kept    idempotency.Answers
	bodies  *membudget.Budget // of large manifests being pushed
	proxies clientaddr.Proxies
	origins *http.CrossOriginProtection
	router  *mux.Router
	handler http.Handler
	pages   http.Handler // nil = there are none
}

type commonHeader struct {
	key    string
	values []string
}

// New makes the handler. The error is about Options.Host.
func New(opts Options) (*API, error) {
	links, err := urls.New(opts.Prefix, opts.Host, opts.RelativeURLs)
	if err != nil {
		return nil, err
	}
	if opts.CatalogMax <= 0 {
		opts.CatalogMax = defaultMaxPage
	}
	if opts.TagsMax <= 0 {
		opts.TagsMax = defaultMaxPage
	}
	if opts.MaxManifestSize <= 0 {
		opts.MaxManifestSize = registry.DefaultMaxManifestSize
	}
	a := &API{
		opts:    opts,
		links:   links,
		signer:  urls.Signer{Secret: opts.Secret},
		headers: commonHeaders(opts.Headers),
		answers: membudget.New(answerMemory, answerShare),
		bodies:  membudget.New(bodyMemory, bodyShare),
		proxies: clientaddr.Proxies{Networks: opts.TrustedProxies, Unix: opts.TrustUnix},
	}
	if a.origins, err = links.Protection(); err != nil {
		return nil, err
	}
	a.router = a.newRouter()
	a.handler = logging.Wrap(a.router, logging.Options{Log: opts.Log, Access: opts.Access, Panicked: panicked})
	return a, nil
}

// commonHeaders are the headers of every answer. The values are shared by all of
// them, so a handler that adds to one must make a copy.
func commonHeaders(configured http.Header) []commonHeader {
	all := []commonHeader{{"Docker-Distribution-Api-Version", []string{"registry/2.0"}}}
	for k, v := range configured {
		all = append(all, commonHeader{http.CanonicalHeaderKey(k), slices.Clip(v)})
	}
	return all
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.proxies.Strip(r)
	if client := a.proxies.Client(r); client != r.RemoteAddr {
		r = r.WithContext(r.Context()) // a copy
		r.RemoteAddr = client
	}
	a.handler.ServeHTTP(w, r)
}

// Proxy makes some repositories a pull-through cache of other registries.
type Proxy interface {
	// Caches reports whether the repository is a cache, which clients can only pull from.
	Caches(name oci.Name) bool
	// Within returns the repository here for a name in the namespace of a registry, and the one
	// to try if that is unknown, "" for none. own reports whether the namespace is this registry.
	// It fails with NAME_UNKNOWN if no repository here stands for the name.
	Within(namespace string, own bool, name oci.Name) (here, literal oci.Name, err error)
	// Sent counts bytes of a manifest or a blob of the repository that a client got.
	Sent(name oci.Name, blob bool, n int64)
	// Puller returns the repository for pulls, whether it is a cache or not.
	Puller(name oci.Name) registry.Puller
}

// repository returns the repository for pushes and deletions.
func (a *API) repository(r *request) registry.Repository {
	return a.opts.Registry.Repository(r.name).By(cmp.Or(r.user, "anonymous"))
}

// pushable is the repository for pushes of manifests, bounded by what the caller may push.
func (a *API) pushable(r *request) registry.Repository {
	repo := a.repository(r).OfClasses(r.classes())
	if !r.may(access.TagMove, r.name) {
		repo = repo.KeepingTags()
	}
	return repo
}

// puller returns the repository for pulls.
func (a *API) puller(r *request) registry.Puller {
	if a.opts.Proxy != nil {
		return a.opts.Proxy.Puller(r.name)
	}
	return a.repository(r)
}
