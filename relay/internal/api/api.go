// Package api is the relay's HTTP interface: the routes of the inbound protocols, the management of messages,
// applications and users, health and metrics. Pages for people are in package web.
package api

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/doctor"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
	"slipway/relay/internal/service"
	"slipway/shared/health"
	"slipway/shared/idempotency"
	"slipway/shared/logging"
	"slipway/shared/shares"
)

// Version names a build.
type Version struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Date    string `json:"buildDate"`
}

// Options configure an [API].
type Options struct {
	Service *service.Service
	Log     *zap.Logger
	Access  *logging.AccessLog // nil for none
	Metrics *Metrics
	Version Version
	Doctor  doctor.Target // for /doctor
	// RecoveryKey returns the recovery key of the bot's identity, or the reason for having none.
	RecoveryKey func(context.Context) (string, error)
	Health      *health.Monitor // runs DatabaseCheck

	Pages      http.Handler // everything under /ui/; nil for none
	Prometheus http.Handler // /metrics; nil if it is served elsewhere

	Stopping <-chan struct{} // closed when streams must end; nil for never

	Inbound []protocol.Protocol // the ways to post messages; of two that match a request, the first takes it

	MaxBody        int64           // bytes of a request's body; 0 means 8 MiB
	MaxWait        time.Duration   // longest ?wait=; 0 means 30 s
	TrustedProxies []netip.Prefix  // proxies whose X-Forwarded-For is trusted
	Origins        request.Origins // sites whose pages may send state-changing requests
	PublicURL      string          // makes cookies secure if it begins with https
}

// API answers requests. It is safe for concurrent use.
type API struct {
	o       Options
	service *service.Service
	log     *zap.Logger
	handler http.Handler
	rows    []*row

	maxBody, maxWait atomic.Int64

	words map[string]bool // the fixed segments of all routes
	first map[string]bool // those that paths begin with

	hasNtfy bool // its protocol is served

	senders, strangers *shares.Pool // memory for big bodies, in bytes
	streams            *shares.Pool
	streaming          *shares.Pool // of streams that hold messages
	changes            ntfyChanges
	times              streamTimes
	answers            idempotency.Answers
}

// New makes an API.
func New(o Options) *API {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	a := &API{o: o, service: o.Service, log: o.Log}
	a.SetLimits(o.MaxBody, o.MaxWait)
	a.senders, a.strangers = shares.New(senderMemory, shareSender), shares.New(strangerMemory, shareStranger)
	a.streams, a.times = shares.New(maxStreams, shareStreams), gotifyTimes
	a.streaming = shares.New(maxHolding, shareHolding)
	a.hasNtfy = slices.ContainsFunc(o.Inbound, func(p protocol.Protocol) bool { return p.Name == protocol.NtfyName })
	router := a.router()
	a.words = wordsOf(a.rows)
	a.handler = logging.Wrap(router, logging.Options{Log: o.Log, Access: o.Access, Panicked: a.panicked})
	return a
}

// SetLimits replaces MaxBody and MaxWait of the options.
func (a *API) SetLimits(maxBody int64, maxWait time.Duration) {
	if maxBody <= 0 {
		maxBody = 8 << 20
	}
	if maxWait <= 0 {
		maxWait = 30 * time.Second
	}
	a.maxBody.Store(maxBody)
	a.maxWait.Store(int64(maxWait))
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = normalizePath(r)
	if a.o.Access != nil {
		r = a.redact(r)
	}
	a.handler.ServeHTTP(w, r)
}

// normalizePath removes a double slash at the beginning of the path and one at its end. A redirect would turn the POST of
// many clients into a GET.
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
	request.WriteError(w, &refusal.Error{Kind: refusal.KindInternal})
}

// shownParameters are the query parameters whose values may be logged. All others may hold a token or a message.
var shownParameters = map[string]bool{
	"wait": true, "state": true, "limit": true, "since": true, "after": true, "until": true, "before": true, "application": true, "appid": true, "priority": true,
}

// redact returns the request with a request line that may be logged: segments of the path that are neither part of a
// route nor a number may be tokens.
func (a *API) redact(r *http.Request) *http.Request {
	path, query, found := strings.Cut(r.RequestURI, "?")
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if !a.words[s] && strings.Trim(s, "0123456789") != "" && (len(segments) < 2 || segments[1] != "ui") {
			segments[i] = "***"
		}
	}
	uri := strings.Join(segments, "/")
	if found {
		pairs := strings.Split(query, "&")
		for i, pair := range pairs {
			if name, _, _ := strings.Cut(pair, "="); !shownParameters[name] {
				pairs[i] = name + "=***"
			}
		}
		uri += "?" + strings.Join(pairs, "&")
	}
	if uri == r.RequestURI {
		return r
	}
	out := *r
	out.RequestURI = uri
	return &out
}
