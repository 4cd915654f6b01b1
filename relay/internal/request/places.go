package request

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// Places is a bounded number of places, of which one key may hold only a share at a time: a client that keeps
// its share leaves the others to everybody else. It is safe for concurrent use.
type Places struct {
	all   *semaphore.Weighted
	share int64
	held  atomic.Int64
	mu    sync.Mutex
	keys  map[string]*keyPlaces
}

type keyPlaces struct {
	share *semaphore.Weighted
	users int // holders and waiters; the key is forgotten with the last one
}

// NewPlaces makes n places, share of them for one key.
func NewPlaces(n, share int64) *Places {
	return &Places{all: semaphore.NewWeighted(n), share: share, keys: map[string]*keyPlaces{}}
}

// Take blocks until n places are free for key, or returns the error of ctx. More than a share count as a share. The caller must call
// release once.
func (p *Places) Take(ctx context.Context, key string, n int64) (release func(), err error) {
	n = min(n, p.share)
	k := p.key(key)
	if err := k.share.Acquire(ctx, n); err != nil {
		p.forget(key)
		return nil, err
	}
	if err := p.all.Acquire(ctx, n); err != nil {
		k.share.Release(n)
		p.forget(key)
		return nil, err
	}
	p.held.Add(n)
	return func() {
		p.held.Add(-n)
		p.all.Release(n)
		k.share.Release(n)
		p.forget(key)
	}, nil
}

// Held returns the number of places that are taken.
func (p *Places) Held() int { return int(p.held.Load()) }

func (p *Places) key(key string) *keyPlaces {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.keys[key]
	if k == nil {
		k = &keyPlaces{share: semaphore.NewWeighted(p.share)}
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
