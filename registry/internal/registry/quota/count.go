package quota

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"slipway/registry/internal/bytesize"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

const (
	countTimeout  = time.Hour
	maxCheckpoint = 1 << 10
	pauseTimes    = 10 // a refusal repeats a count that is older than this multiple of the time it took
)

// checkpoint is the result of a count. It is stored for the next start, which then accepts pushes before
// its own count has ended.
type checkpoint struct {
	Bytes   int64         `json:"bytes"`
	Counted time.Time     `json:"counted"` // when the count ended; zero = there was none
	Took    time.Duration `json:"took"`
}

// counter knows how much of a quota is used.
type counter struct {
	Quota
	ctx    context.Context //nolint:containedctx // ends counts, which outlive the requests that begin them
	store  storage.Store
	log    *zap.Logger
	pause  time.Duration // how old a count must be before a refusal repeats it
	flight singleflight.Group

	mu           sync.Mutex
	last         checkpoint             // Bytes with what this process has taken since
	added        int64                  // all that this process has ever taken: a count adds those since it began
	reservations map[*Reservation]int64 // what counts must not miss
}

func (c *counter) begin(res *Reservation, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reservations[res] = bytes
}

func (c *counter) take(ctx context.Context, res *Reservation, n int64) error {
	if err := c.know(ctx); err != nil {
		return err
	}
	stale, err := c.charge(res, n)
	if err == nil || !stale {
		return err
	}
	if err := c.count(ctx); err != nil {
		return err
	}
	_, err = c.charge(res, n)
	return err
}

// charge adds n bytes to the count and to the reservation. If it refuses, stale reports whether another count may
// find room.
func (c *counter) charge(res *Reservation, n int64) (stale bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.Bytes+n > c.Limit {
		age, pause := time.Since(c.last.Counted), max(c.pause, pauseTimes*c.last.Took)
		return age > pause || age < -pause, &oci.Error{Code: oci.CodeDenied, Err: ErrExceeded, Message: fmt.Sprintf(
			"the quota of %s does not allow %s more: %s of %s are used; delete what is not needed and let the garbage collection free it",
			c.Prefix, bytesize.Text(n), bytesize.Text(c.last.Bytes), bytesize.Text(c.Limit),
		)}
	}
	c.last.Bytes, c.added, c.reservations[res] = c.last.Bytes+n, c.added+n, c.reservations[res]+n
	return false, nil
}

// give takes n bytes, which may be negative, back from the count and from the reservation.
func (c *counter) give(res *Reservation, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last.Bytes, c.added, c.reservations[res] = max(c.last.Bytes-n, 0), c.added+max(-n, 0), c.reservations[res]-n
}

// end gives n bytes back and ends the reservation.
func (c *counter) end(res *Reservation, n int64) {
	c.give(res, n)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.reservations, res)
}

// know ensures that there is a count: the last one of any process, or a new one.
func (c *counter) know(ctx context.Context) error {
	if c.counted() {
		return nil
	}
	content, _, err := storage.Read(ctx, c.store, layout.Quota(c.Prefix), maxCheckpoint)
	var before checkpoint
	if err == nil {
		err = json.Unmarshal(content, &before)
	}
	if err == nil {
		c.mu.Lock()
		if c.last.Counted.IsZero() {
			before.Bytes += c.last.Bytes
			c.last = before
		}
		c.mu.Unlock()
	} else if !errors.Is(err, storage.ErrNotExist) {
		c.log.Warn("cannot read the last count of a quota; counting again", zap.String("prefix", string(c.Prefix)), zap.Error(err))
	}
	if c.counted() {
		return nil
	}
	return c.count(ctx)
}

func (c *counter) counted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.last.Counted.IsZero()
}

// count counts the storage, or waits for the count in progress.
func (c *counter) count(ctx context.Context) error {
	select {
	case r := <-c.flight.DoChan("", func() (any, error) { return nil, c.recount() }):
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// recount adds the bytes of this process's reservations to those in the storage, and the bytes taken during the
// count, some of them twice. It misses an upload that becomes a blob at the moment it is listed. The next
// count corrects both.
func (c *counter) recount() error {
	ctx, cancel := context.WithTimeout(c.ctx, countTimeout)
	defer cancel()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	began := time.Now()
	c.mu.Lock()
	before, reserved := c.added, maps.Clone(c.reservations)
	c.mu.Unlock()
	held, uploads := int64(0), map[string]bool{}
	for res, n := range reserved {
		held += n
		uploads[res.upload] = true
	}
	stored, err := c.walk(ctx, uploads)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.last = checkpoint{Bytes: stored + held + c.added - before, Counted: time.Now().UTC(), Took: time.Since(began)}
	if c.added != before { // what came meanwhile may be in stored, too: the next count comes sooner
		c.last.Took /= pauseTimes
	}
	content, err := json.Marshal(c.last)
	c.mu.Unlock()
	if err == nil {
		err = c.store.Apply(ctx, nil, storage.Stage{{Key: layout.Quota(c.Prefix), Content: content, Ephemeral: true}})
	}
	if err != nil && ctx.Err() == nil {
		c.log.Warn("cannot store the count of a quota; the next start counts before the first push", zap.String("prefix", string(c.Prefix)), zap.Error(err))
	}
	return nil
}

// walk returns the number of bytes in the storage under the prefix, without those of the given
// uploads.
func (c *counter) walk(ctx context.Context, except map[string]bool) (int64, error) {
	var total atomic.Int64
	sizes, ctx := errgroup.WithContext(ctx)
	sizes.SetLimit(storage.AtOnce)
	err := c.each(ctx, func(key string) {
		if except[key] {
			return
		}
		sizes.Go(func() error {
			info, err := c.store.Stat(ctx, key)
			if errors.Is(err, storage.ErrNotExist) { // a link to nothing, an upload without bytes
				return nil
			}
			total.Add(info.Size)
			return err
		})
	})
	err = cmp.Or(sizes.Wait(), err)
	return total.Load(), err
}

// each calls visit with the key of each object that counts. Uploads come first, because
// they become linked blobs.
func (c *counter) each(ctx context.Context, visit func(key string)) error {
	for name, err := range tree.Below(ctx, c.store, c.Prefix) {
		if err != nil {
			return err
		}
		uploads := layout.Uploads(name)
		for info, err := range c.store.List(ctx, uploads, storage.ListOptions{Names: true}) {
			if err != nil {
				return err
			}
			if info.Prefix {
				visit(layout.UploadData(name, info.Key[len(uploads)+1:len(info.Key)-1]))
			}
		}
		for d, err := range tree.Linked(ctx, c.store, name) {
			if err != nil {
				return err
			}
			visit(layout.BlobData(d))
		}
	}
	return nil
}
