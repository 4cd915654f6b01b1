package request

import (
	"context"
	"net/netip"
	"sync"
)

// Places is a bounded number of places, of which one key may hold only a share at a time: a client that keeps
// its share leaves the others to everybody else. It is safe for concurrent use.
type Places struct {
	all   chan struct{}
	share int
	mu    sync.Mutex
	keys  map[string]*keyPlaces
}

type keyPlaces struct {
	held  chan struct{}
	users int // holders and waiters; the key is forgotten with the last one
}

// NewPlaces makes n places, share of them for one key.
func NewPlaces(n, share int) *Places {
	return &Places{all: make(chan struct{}, n), share: share, keys: map[string]*keyPlaces{}}
}

// Take blocks until a place is free for key, or returns the error of ctx. The caller must call release once.
func (p *Places) Take(ctx context.Context, key string) (release func(), err error) {
	k := p.key(key)
	select {
	case k.held <- struct{}{}:
	case <-ctx.Done():
		p.forget(key)
		return nil, ctx.Err()
	}
	select {
	case p.all <- struct{}{}:
	case <-ctx.Done():
		<-k.held
		p.forget(key)
		return nil, ctx.Err()
	}
	return func() {
		<-p.all
		<-k.held
		p.forget(key)
	}, nil
}

// Held returns the number of places that are taken.
func (p *Places) Held() int { return len(p.all) }

func (p *Places) key(key string) *keyPlaces {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.keys[key]
	if k == nil {
		k = &keyPlaces{held: make(chan struct{}, p.share)}
		p.keys[key] = k
	}
	k.users++
	return k
}

func (p *Places) forget(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.keys[key]
	if k.users--; k.users == 0 {
		delete(p.keys, key)
	}
}

// Network returns what limits count as one address: an IPv4 address, or the /64 network of an IPv6 address.
// Anything else is returned as it is.
func Network(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if ip = ip.Unmap(); ip.Is6() {
		if n, err := ip.WithZone("").Prefix(64); err == nil {
			return n.String()
		}
	}
	return ip.String()
}
