// Package shares divides a bounded amount among clients, so that one that is slow keeps only its share from the others.
package shares

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// Pool is an amount, of bytes or of places, of which one client may hold only a share at a time. It is safe for concurrent use.
type Pool struct {
	all   *semaphore.Weighted
	share int64
	held  atomic.Int64

	mu      sync.Mutex
	clients map[string]*client
}

type client struct {
	share *semaphore.Weighted
	users int // holders and waiters; the client is forgotten with the last one
}

// New returns a pool of an amount, of which one client gets at most share.
func New(amount, share int64) *Pool {
	return &Pool{all: semaphore.NewWeighted(amount), share: share, clients: map[string]*client{}}
}

// Take blocks until n are free for a client, or returns the error of ctx. More than a share count as a share. The caller must
// release what it holds.
func (p *Pool) Take(ctx context.Context, of string, n int64) (*Held, error) {
	n = min(n, p.share)
	c := p.enter(of)
	err := c.share.Acquire(ctx, n)
	if err == nil {
		if err = p.all.Acquire(ctx, n); err != nil {
			c.share.Release(n)
		}
	}
	if err != nil {
		p.leave(of, c)
		return nil, err
	}
	p.held.Add(n)
	return &Held{p, of, c, n}, nil
}

// Held returns how much is held.
func (p *Pool) Held() int { return int(p.held.Load()) }

func (p *Pool) enter(of string) *client {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.clients[of]
	if c == nil {
		c = &client{share: semaphore.NewWeighted(p.share)}
		p.clients[of] = c
	}
	c.users++
	return c
}

func (p *Pool) leave(of string, c *client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.users--; c.users == 0 {
		delete(p.clients, of)
	}
}

// Held is a part of a pool that a client holds. It is not safe for concurrent use.
type Held struct {
	pool  *Pool
	of    string
	owner *client
	n     int64
}

// Shrink gives back all but n.
func (h *Held) Shrink(n int64) {
	if n = max(n, 0); n < h.n {
		h.pool.held.Add(n - h.n)
		h.pool.all.Release(h.n - n)
		h.owner.share.Release(h.n - n)
		h.n = n
	}
}

// Release gives back what is left. It must be called once.
func (h *Held) Release() {
	h.Shrink(0)
	h.pool.leave(h.of, h.owner)
}
