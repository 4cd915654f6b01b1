package auth

import (
	"cmp"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"slipway/registry/internal/cache"
	"slipway/registry/internal/clientaddr"
	"slipway/registry/internal/oci"
	"slipway/shared/plural"
)

// Limit bounds one client; 0 is no limit.
type Limit struct {
	Requests int // a second
	Burst    int // requests at once after a pause; 0 = those of burstTime
	Uploads  int // at the same time
}

const (
	burstTime  = 10      // seconds
	maxClients = 1 << 14 // that are remembered of each kind
)

// Limits bounds what users and addresses may do. The nil *Limits bounds nothing.
type Limits struct{ users, addresses *limiter }

// NewLimits is nil if there is nothing to bound.
func NewLimits(user, address Limit) *Limits {
	if user == (Limit{}) && address == (Limit{}) {
		return nil
	}
	return &Limits{newLimiter("user", user), newLimiter("address", address)}
}

// Address counts a request of a client's address, and the bytes that it sends if it is an
// upload, until end is called. The error is a *Refusal.
func (l *Limits) Address(r *http.Request, upload bool) (end func(), err error) {
	if l == nil || l.addresses.limit == (Limit{}) {
		return func() {}, nil
	}
	return l.addresses.begin(clientaddr.Network(r.RemoteAddr), upload, time.Now())
}

// User is Address for an authenticated caller; "" is anonymous.
func (l *Limits) User(name string, upload bool) (end func(), err error) {
	if l == nil || name == "" || l.users.limit == (Limit{}) {
		return func() {}, nil
	}
	return l.users.begin(name, upload, time.Now())
}

// limiter is the limit of one kind of clients.
type limiter struct {
	kind  string
	limit Limit

	mu      sync.Mutex // held while a client is looked up, made or changed
	clients *cache.Cache[string, *client]
}

type client struct {
	requests *rate.Limiter
	uploads  int // in progress
}

func newLimiter(kind string, limit Limit) *limiter {
	limit.Burst = cmp.Or(limit.Burst, burstTime*limit.Requests)
	return &limiter{kind: kind, limit: limit, clients: cache.New[string, *client](maxClients)}
}

func (l *limiter) begin(key string, upload bool, now time.Time) (end func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, known := l.clients.Get(key)
	if !known {
		c = &client{requests: rate.NewLimiter(rate.Limit(l.limit.Requests), l.limit.Burst)}
		l.clients.Put(key, c, 1)
	}
	switch {
	case upload && l.limit.Uploads > 0 && c.uploads >= l.limit.Uploads:
		return nil, &Refusal{Reason: TooManyUploads, RetryAfter: retryAfter, Err: l.refusal(plural.Of(l.limit.Uploads, "upload") + " at the same time")}
	case l.limit.Requests > 0 && !c.requests.AllowN(now, 1):
		after := time.Duration((1 - c.requests.TokensAt(now)) / float64(l.limit.Requests) * float64(time.Second))
		return nil, &Refusal{Reason: TooManyRequests, RetryAfter: max(after, time.Second), Err: l.refusal(plural.Of(l.limit.Requests, "request") + " a second")}
	}
	if !upload || l.limit.Uploads == 0 {
		return func() {}, nil
	}
	c.uploads++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		c.uploads--
	}, nil
}

func (l *limiter) refusal(most string) *oci.Error {
	return &oci.Error{Code: oci.CodeTooManyRequests, Message: "too many requests: one " + l.kind + " may have " + most}
}
