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
	// leasePause is the time between a renewal that failed and the next one, if the lease is valid.
	leasePause = 5 * time.Second
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
	failed  time.Time // when a renewal last failed
}

// grant is a lease that the bucket has.
type grant struct {
	key   string    // "" = none
	sent  time.Time // when the request was sent that dated it
	dated time.Time // the same, by the store's clock
	since time.Time // by the store's clock, when the first request had taken effect
	seen  time.Time // by the local clock, the same
}

// renewal is a request in progress.
type renewal struct {
	err  error
	done chan struct{}
}

// valid reports whether the grant permits changes for the next d. The clocks of this process are not enough: all of them stand
// still in a virtual machine that is paused.
func (l *lease) valid(g grant, d time.Duration) bool {
	return g.key != "" && max(storage.Elapsed(g.sent), l.c.b.Now().Sub(g.dated))+d < leaseLife
}

// hold returns a grant that permits changes for the next d. It waits if the lease has to be taken or renewed for that, and
// otherwise renews one in the background once half of leaseLife is over.
func (l *lease) hold(ctx context.Context, d time.Duration) (grant, error) {
	for {
		l.mu.Lock()
		g, r := l.held, l.renewal
		valid := l.valid(g, d)
		if r == nil && (!valid || !l.valid(g, leaseLife/2) && storage.Elapsed(l.failed) > leasePause) {
			r = &renewal{done: make(chan struct{})}
			l.renewal = r
			go l.renew(context.WithoutCancel(ctx), r)
		}
		l.mu.Unlock()
		if valid {
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
	g.sent, g.dated = time.Now(), l.c.b.Now()
	how := &WriteOptions{Before: old.sent.Add(leaseLife)}
	first := !l.valid(old, 0)
	if first {
		g.key, how.Before = leasePrefix+rand.Text(), time.Time{}
	}
	if _, r.err = l.c.Put(ctx, g.key, holder(), how); r.err == nil && first {
		if g.since, r.err = l.taken(ctx, g.key); r.err != nil {
			_ = l.c.Delete(ctx, g.key, &WriteOptions{}) // else it expires
		}
		g.seen = time.Now()
	}
	l.mu.Lock()
	if r.err == nil {
		l.held = g
	} else {
		l.failed = time.Now()
	}
	l.renewal = nil
	l.mu.Unlock()
	close(r.done)
	if r.err == nil && first && old.key != "" && storage.Elapsed(old.sent) > leaseLife+l.c.limits.MaxLate {
		_ = l.c.Delete(ctx, old.key, &WriteOptions{}) // else a collection does
	}
}

// taken returns when a new lease had taken effect, in whole seconds as dates of objects have them: what the store dates before that
// may be older than a collection that missed the lease. Of the four seconds for which a collection sleeps before it looks for leases
// this takes one.
func (l *lease) taken(ctx context.Context, key string) (time.Time, error) {
	now, dated, err := l.c.dates(ctx, key)
	if err == nil && dated.IsZero() {
		err = fmt.Errorf("%w: the bucket doesn't list what was just put", storage.ErrUnavailable)
	}
	if dated.After(now) {
		now = dated
	}
	return now.Truncate(time.Second), err
}

// dates returns the store's clock as its answers have it, and the date of the object at key; zero if there is none. The two differ
// where a proxy answers for the store.
func (c *Client) dates(ctx context.Context, key string) (now, dated time.Time, err error) {
	page, err := c.page(ctx, key, ListOptions{Max: 1})
	if err == nil && len(page.Entries) > 0 && page.Entries[0].Key == key {
		dated = page.Entries[0].Modified
	}
	return page.Now, dated, err
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

// leased reports whether a process may be making attempts. It deletes leases that expired long ago. ahead is how far the clock in
// the store's answers is ahead of the dates of its objects.
func (c *Client) leased(ctx context.Context, ahead time.Duration) (yes bool, err error) {
	const margin = leaseLife + 2*storage.ClockError
	for o := (ListOptions{}); ; {
		page, err := c.page(ctx, leasePrefix, o)
		if err != nil {
			return false, fmt.Errorf("cannot find out which processes use the bucket: %w", err)
		}
		for _, e := range page.Entries {
			switch age := page.Now.Sub(e.Modified) - ahead - c.limits.MaxLate; {
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
