// Package api is the relay's HTTP interface: the message endpoint that senders
// know from Gotify and PushBits, the management of applications and users, and
// what operators look at. Pages for people are another package.
package api

import (
	"net/http"
	"net/netip"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/doctor"
	"slipway/relay/internal/relay"
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
	Patient doctor.Patient // for /doctor

	Pages      http.Handler // everything under /ui/; nil for none
	Prometheus http.Handler // /metrics; nil if it is served elsewhere

	MaxBody        int64          // bytes of a request's body; 0 means 2 MiB
	MaxWait        time.Duration  // longest ?wait=; 0 means 30 s
	TrustedProxies []netip.Prefix // whose X-Forwarded-For is believed
}

// API answers requests. It is safe for concurrent use.
type API struct {
	o       Options
	service *relay.Service
	log     *zap.Logger
	handler http.Handler
	rows    []*row
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
	a := &API{o: o, service: o.Service, log: o.Log}
	a.handler = logging.Wrap(a.router(), logging.Options{Log: o.Log, Access: o.Access, Panicked: a.panicked})
	return a
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

func (a *API) panicked(w http.ResponseWriter, _ *http.Request) {
	writeError(w, &relay.Error{Kind: relay.KindInternal})
}
