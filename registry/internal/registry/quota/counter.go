package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"

	"slipway/registry/internal/document"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

const (
	writeTimeout = 30 * time.Second
	countTimeout = time.Hour
)

// account is what the replicas know of one quota. Its zero value was never counted.
type account struct {
	Bytes   int64         `json:"bytes"`   // stored or about to be
	Added   int64         `json:"added"`   // all charges ever: a count adds those since it began
	Counted time.Time     `json:"counted"` // when the last count ended
	Took    time.Duration `json:"took"`    // by the last count
}

type counter struct {
	Quota
	ctx    context.Context //nolint:containedctx // ends counts, which outlive the requests that begin them
	store  storage.Store
	log    *zap.Logger
	pause  time.Duration // how old a count must be before a refusal repeats it
	flight singleflight.Group

	mu    sync.Mutex // held while the account is written
	doc   *document.Document[account]
	holds map[*Hold]int64 // what counts must not miss
}

func (c *counter) take(ctx context.Context, h *Hold, n int64, recount bool) error {
	stale, err := c.change(ctx, h, n)
	if err == nil || (!stale || !recount) && !errors.Is(err, document.ErrDamaged) {
		return err
	}
	if err := c.count(ctx); err != nil {
		return err
	}
	_, err = c.change(ctx, h, n)
	return err
}

func (c *counter) give(ctx context.Context, h *Hold, n int64) {
	if n == 0 {
		return
	}
	if _, err := c.change(ctx, h, -n); err != nil {
		c.log.Warn("cannot give bytes back to a quota; the next count does", zap.String("prefix", string(c.Prefix)), zap.Int64("bytes", n), zap.Error(err))
	}
}

// change adds n bytes, which may be negative, to the account and to the hold. If it refuses,
// stale reports whether a count may find room.
func (c *counter) change(ctx context.Context, h *Hold, n int64) (stale bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	err = c.doc.Update(ctx, func(a *account) error {
		if n > 0 && (a.Counted.IsZero() || a.Bytes+n > c.Limit) {
			age, pause := time.Since(a.Counted), max(c.pause, 10*a.Took)
			stale = age > pause || age < -pause
			return &oci.Error{Code: oci.CodeDenied, Err: ErrExceeded, Message: fmt.Sprintf(
				"the quota of %s does not allow %d bytes more: %d of %d bytes are used; delete what is not needed and let the garbage collection free it",
				c.Prefix, n, a.Bytes, c.Limit,
			)}
		}
		a.Bytes, a.Added = max(a.Bytes+n, 0), a.Added+max(n, 0)
		return nil
	})
	if err == nil {
		c.holds[h] += n
	}
	return stale, err
}

// count counts the storage, or waits for the count under way.
func (c *counter) count(ctx context.Context) error {
	select {
	case r := <-c.flight.DoChan("", func() (any, error) { return nil, c.recount() }):
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// recount takes what this process holds from its holds and the rest from the storage, and adds
// what any process charges meanwhile. It misses what another process has charged before and
// stores later, and an upload whose bytes it looks for just as they become a blob. The next
// count finds both.
func (c *counter) recount() error {
	ctx, cancel := context.WithTimeout(c.ctx, countTimeout)
	defer cancel()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	began := time.Now()
	c.mu.Lock()
	err := c.doc.Refresh(ctx)
	if errors.Is(err, document.ErrDamaged) {
		c.log.Error("the count of a quota is damaged; counting again", zap.String("prefix", string(c.Prefix)), zap.Error(err))
		if err = c.doc.Discard(ctx); err == nil {
			err = c.doc.Refresh(ctx)
		}
	}
	before, _ := c.doc.Last()
	holds := maps.Clone(c.holds)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	held, uploads := int64(0), map[string]bool{}
	for h, n := range holds {
		held += n
		uploads[h.upload] = true
	}
	stored, err := c.walk(ctx, uploads)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doc.Update(ctx, func(a *account) error {
		a.Bytes = stored + held + max(a.Added-before.Added, 0)
		a.Counted, a.Took = time.Now().UTC(), time.Since(began)
		return nil
	})
}
