// Package api is the relay's HTTP interface: the message endpoint that senders
// know from Gotify and PushBits, the management of applications and users, and
// what operators look at. Pages for people are another package.
package api

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/doctor"
	"slipway/relay/internal/httprequest"
	"slipway/relay/internal/inbound"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/relay"
	"slipway/shared/health"
	"slipway/shared/logging"
)

// Version names a build.
type Version struct {
	Version, Commit, Date string
}

// Options are what an [API] is made of.
type Options struct {
	Service *relay.Service
	Log     *zap.Logger
	Access  *logging.AccessLog // nil for none
	Metrics *Metrics
	Version Version
	Doctor  doctor.Target // for /doctor
	// RecoveryKey returns the recovery key of the bot's identity, or why there is none.
	RecoveryKey func(context.Context) (string, error)
	Health      *health.Monitor // runs DatabaseCheck

	Pages      http.Handler // everything under /ui/; nil for none
	Prometheus http.Handler // /metrics; nil if it is served elsewhere

	Inbound []inbound.Protocol // what other programs post in shapes of their own

	MaxBody        int64               // bytes of a request's body; 0 means 2 MiB
	MaxWait        time.Duration       // longest ?wait=; 0 means 30 s
	TrustedProxies []netip.Prefix      // whose X-Forwarded-For is believed
	Origins        httprequest.Origins // what browsers may change something from
}

// API answers requests. It is safe for concurrent use.
type API struct {
	o       Options
	service *relay.Service
	log     *zap.Logger
	handler http.Handler
	rows    []*row
	big     chan struct{} // holds a token for each big body in memory
	slow    chan struct{} // and one for each answer that is delayed
}

// New makes an API.
func New(o Options) *API {
	if o.MaxBody <= 0 {
		o.MaxBody = 2 << 20
	}
	if o.MaxWait <= 0 {
		o.MaxWait = 30 * time.Second
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	a := &API{o: o, service: o.Service, log: o.Log, big: make(chan struct{}, bigBodies), slow: make(chan struct{}, slowed)}
	a.handler = logging.Wrap(a.router(), logging.Options{Log: o.Log, Access: o.Access, Panicked: a.panicked})
	return a
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = normalizePath(r)
	if a.o.Access != nil {
		r = redactQuery(r)
	}
	a.handler.ServeHTTP(w, r)
}

// normalizePath removes a slash too many between the sender's base address and the path, or behind it. A redirect
// would turn the POST of many clients into a GET.
func normalizePath(r *http.Request) *http.Request {
	path := r.URL.Path
	if !strings.HasPrefix(path, "//") && (len(path) < 2 || path[len(path)-1] != '/' || strings.HasPrefix(path, "/ui/")) {
		return r
	}
	out := *r
	u := *r.URL
	u.Path, u.RawPath = "/"+strings.Trim(u.Path, "/"), ""
	out.URL = &u
	return &out
}

func (a *API) panicked(w http.ResponseWriter, _ *http.Request) {
	writeError(w, &refusal.Error{Kind: refusal.KindInternal})
}
