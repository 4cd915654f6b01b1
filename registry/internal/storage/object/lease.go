package object

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"slipway/registry/internal/storage"
)

const (
	leasePrefix = private + "lease/"
	// leaseLife is the age up to which a lease permits changes. A collection believes in one for longer: a change may be late.
	leaseLife = 5 * time.Minute
)

// lease announces to collections that this process makes attempts: an object whose date is renewed while it does. A
// collection that finds no lease needn't wait for attempts. It is safe for concurrent use.
//
// An expired lease is never renewed. Another one takes its place, so that a collection that misses both misses no attempt.
type lease struct {
	c *Client

	mu      sync.Mutex
	held    grant
	renewal *renewal
}

// grant is a lease that the bucket has.
type grant struct {
	key   string    // "" = none
	sent  time.Time // when the request was sent that dated it
	since time.Time // by the store's clock, after the first request had taken effect
	seen  time.Time // by the local clock, the same
}

// renewal is a request in progress.
type renewal struct {
	err  error
	done chan struct{}
}

// valid reports whether the grant permits changes for as long.
func (g grant) valid(d time.Duration) bool {
	return g.key != "" && storage.Elapsed(g.sent)+d < leaseLife
}

// hold returns a grant that permits changes for as long, and takes or renews the lease if it has to.
func (l *lease) hold(ctx context.Context, d time.Duration) (grant, error) {
	for {
		l.mu.Lock()
		g, r := l.held, l.renewal
		if r == nil && !g.valid(max(d, leaseLife/2)) {
			r = &renewal{done: make(chan struct{})}
			l.renewal = r
			go l.renew(context.WithoutCancel(ctx), r)
		}
		l.mu.Unlock()
		if g.valid(d) {
			return g, nil
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return grant{}, ctx.Err()
		}
		if r.err != nil {
			return grant{}, fmt.Errorf("cannot announce changes of this process: %w", r.err)
		}
	}
}

func (l *lease) renew(ctx context.Context, r *renewal) {
	l.mu.Lock()
	old := l.held
	l.mu.Unlock()
	g := old
	g.sent = time.Now()
	how := &WriteOptions{Before: old.sent.Add(leaseLife)}
	first := !old.valid(0)
	if first {
		g.key, how.Before = leasePrefix+rand.Text(), time.Time{}
	}
	if _, r.err = l.c.Put(ctx, g.key, holder(), how); r.err == nil && first {
		var page Page
		page, r.err = l.c.page(ctx, leasePrefix, ListOptions{Max: 1})
		g.since, g.seen = page.Now, time.Now()
	}
	l.mu.Lock()
	if r.err == nil {
		l.held = g
	}
	l.renewal = nil
	l.mu.Unlock()
	close(r.done)
	if r.err == nil && first && old.key != "" {
		_ = l.c.Delete(ctx, old.key, &WriteOptions{}) // else a collection does
	}
}

// release deletes the lease, unless a request of this process may still take effect.
func (l *lease) release() {
	l.mu.Lock()
	key := l.held.key
	l.mu.Unlock()
	if !l.c.end() || key == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.c.timeout)
	defer cancel()
	_ = l.c.b.Delete(ctx, l.c.root+key, storage.Condition{}) // else it expires
}

// leased reports whether a process may be making attempts. It deletes leases that expired long ago.
func (c *Client) leased(ctx context.Context) (yes bool, err error) {
	const margin = leaseLife + 2*storage.ClockError
	for o := (ListOptions{}); ; {
		page, err := c.page(ctx, leasePrefix, o)
		if err != nil {
			return false, fmt.Errorf("cannot find out which processes use the bucket: %w", err)
		}
		for _, e := range page.Entries {
			switch age := page.Now.Sub(e.Modified) - c.limits.MaxLate; {
			case age < margin:
				yes = true
			case age > 2*margin:
				_ = c.Delete(ctx, e.Key, &WriteOptions{})
			}
		}
		if !page.More {
			return yes, nil
		}
		o.After = page.Next
	}
}
