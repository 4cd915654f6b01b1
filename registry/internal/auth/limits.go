package auth

import (
	"net/http"
	"sync"
	"time"

	"slipway/registry/internal/address"
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
	return l.addresses.begin(address.Network(r.RemoteAddr), upload, time.Now())
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
	burst float64

	mu      sync.Mutex
	clients map[string]*client
}

type client struct {
	requests float64 // that may come in a burst, at the time
	at       time.Time
	uploads  int // uploads in progress
}

func newLimiter(kind string, limit Limit) *limiter {
	burst := limit.Burst
	if burst == 0 {
		burst = burstTime * limit.Requests
	}
	return &limiter{kind: kind, limit: limit, burst: float64(burst), clients: map[string]*client{}}
}

func (l *limiter) begin(key string, upload bool, now time.Time) (end func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.clients[key]
	if c == nil {
		l.makeRoom(now)
		c = &client{requests: l.burst, at: now}
		l.clients[key] = c
	}
	l.refill(c, now)
	switch {
	case upload && l.limit.Uploads > 0 && c.uploads >= l.limit.Uploads:
		return nil, &Refusal{Reason: TooManyUploads, RetryAfter: retryAfter, Err: l.refusal(plural.Of(l.limit.Uploads, "upload") + " at the same time")}
	case l.limit.Requests > 0 && c.requests < 1:
		after := time.Duration((1 - c.requests) / float64(l.limit.Requests) * float64(time.Second))
		return nil, &Refusal{Reason: TooManyRequests, RetryAfter: max(after, time.Second), Err: l.refusal(plural.Of(l.limit.Requests, "request") + " a second")}
	}
	c.requests--
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

// refill adds what has become free. Of requests at the same time a later one may be here
// first.
func (l *limiter) refill(c *client, now time.Time) {
	if now.After(c.at) {
		c.requests = min(l.burst, c.requests+now.Sub(c.at).Seconds()*float64(l.limit.Requests))
		c.at = now
	}
}

// makeRoom drops those who could do as much if they were new, or some that send nothing
// if there are too few of these.
func (l *limiter) makeRoom(now time.Time) {
	if len(l.clients) < maxClients {
		return
	}
	for key, c := range l.clients {
		if l.refill(c, now); c.uploads == 0 && c.requests >= l.burst {
			delete(l.clients, key)
		}
	}
	for key, c := range l.clients {
		if len(l.clients) < maxClients*3/4 {
			return
		}
		if c.uploads == 0 {
			delete(l.clients, key)
		}
	}
}
