// Package quota bounds the bytes under prefixes of repositories: each blob and manifest
// that is linked under a prefix counts once. A document in the storage, which all replicas
// share, never counts too little; what it counts twice, such as a blob that two
// repositories of the prefix have, a walk over the tree finds before anybody is refused
// because of it.
package quota

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/document"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage"
)

const (
	// countPause is how long the outcome of a count is believed. Only a deletion can have
	// made room in that time.
	countPause = 10 * time.Second

	takeTimeout  = 30 * time.Second
	countTimeout = time.Hour
)

// Quota is the most bytes that the repository called Prefix and all below it may have
// together.
type Quota struct {
	Prefix oci.Name
	Limit  int64
}

// Covers says whether the quota bounds the repository.
func (q Quota) Covers(name oci.Name) bool {
	rest, ok := strings.CutPrefix(string(name), string(q.Prefix))
	return ok && (rest == "" || rest[0] == '/')
}

// Quotas implements registry.Quota.
type Quotas struct {
	keys keys
	list []*counter
}

// New does no I/O. All processes that push to the store have the same quotas.
func New(store storage.Store, coordinator storage.Coordinator, quotas []Quota, log *zap.Logger) *Quotas {
	all := &Quotas{keys: keys(maphash.MakeSeed())}
	for _, q := range quotas {
		all.list = append(all.list, &counter{
			Quota: q, store: store, coordinator: coordinator, log: log, pause: countPause, keys: all.keys,
			doc: document.New[account](store, layout.Quota(q.Prefix)),
		})
	}
	return all
}

// Bounds implements registry.Quota.
func (all *Quotas) Bounds(name oci.Name) bool {
	return slices.ContainsFunc(all.list, func(c *counter) bool { return c.Covers(name) })
}

// Take implements registry.Quota. What one quota refuses is not charged to the others.
func (all *Quotas) Take(ctx context.Context, name oci.Name, d oci.Digest, size int64) error {
	var covering []*counter
	for _, c := range all.list {
		if c.Covers(name) {
			covering = append(covering, c)
		}
	}
	k := all.keys.of(d)
	for _, c := range covering {
		if len(covering) == 1 {
			break
		}
		if err := c.check(ctx, k, size); err != nil {
			return err
		}
	}
	for _, c := range covering {
		if err := c.take(ctx, k, size); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the counts under way. Pushes that need one fail from then on.
func (all *Quotas) Close() {
	for _, c := range all.list {
		c.close()
	}
}

// Count counts what is under each quota, so that the first push need not wait for it.
func (all *Quotas) Count(ctx context.Context) {
	for _, c := range all.list {
		if err := c.count(ctx, 0); err != nil && !errors.Is(err, context.Canceled) {
			c.log.Error("cannot count the bytes under a quota; the next push there tries again", zap.String("prefix", string(c.Prefix)), zap.Error(err))
		}
	}
}

// account is what is known of one prefix.
type account struct {
	Bytes   int64         `json:"bytes"`   // no less than what is linked
	Charged int64         `json:"charged"` // of these, not found by the last count
	Counted time.Time     `json:"counted"` // when the last count ended
	Took    time.Duration `json:"took"`    // by the last count
	Last    string        `json:"last"`    // the ID of the last count
	Counts  []running     `json:"counts,omitempty"`
}

// running is a count under way.
type running struct {
	ID      string    `json:"id"`
	Began   time.Time `json:"began"`
	Charged int64     `json:"charged"` // since it began
}

func (a *account) charge(size int64) {
	a.Bytes += size
	a.Charged += size
	a.chargeCounts(size)
}

// chargeCounts charges the counts under way, which may have passed the link already.
func (a *account) chargeCounts(size int64) {
	for i := range a.Counts {
		a.Counts[i].Charged += size
	}
}

type counter struct {
	Quota
	store       storage.Store
	coordinator storage.Coordinator
	log         *zap.Logger
	pause       time.Duration
	keys        keys
	doc         *document.Document[account]

	mu      sync.Mutex
	waiting []*charge
	writing sync.Mutex // held while charges are written

	counts atomic.Int64          // finished by this process
	found  atomic.Pointer[found] // by the last of them; nil = there was none
	flight *flight               // under way; under mu
	closed bool                  // under mu
}

// found is what a count has found. Nobody changes it.
type found struct {
	id    string
	ended time.Time
	sizes sizes
}

// charge is bytes that wait to be counted. The error is valid once it was written.
type charge struct {
	key  key
	size int64
	err  error
}

var errNothingTaken = errors.New("nothing was taken")

// take counts size bytes more if there is room. Those who wait at the same time are
// written together.
func (c *counter) take(ctx context.Context, k key, size int64) error {
	done := c.counts.Load()
	if done == 0 { // what is written may be of a time without this quota
		return c.uncounted(0)
	}
	mine := &charge{key: k, size: size}
	c.mu.Lock()
	c.waiting = append(c.waiting, mine)
	c.mu.Unlock()
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	batch := c.waiting
	c.waiting = nil
	c.mu.Unlock()
	if len(batch) > 0 { // else somebody else has written mine
		c.write(ctx, batch, done)
	}
	return mine.err
}

func (c *counter) write(ctx context.Context, batch []*charge, done int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeTimeout)
	defer cancel()
	err := c.doc.Update(ctx, func(a *account) error {
		taken := false
		for _, x := range batch {
			if x.err = c.refusal(a, x.key, x.size, done); x.err != nil {
				continue
			}
			if c.has(a, x.key) {
				a.chargeCounts(x.size)
				taken = taken || len(a.Counts) > 0
				continue
			}
			a.charge(x.size)
			taken = true
		}
		if !taken {
			return errNothingTaken
		}
		return nil
	})
	if err == nil || errors.Is(err, errNothingTaken) {
		return
	}
	for _, x := range batch {
		x.err = fmt.Errorf("count the bytes under %s: %w", c.Prefix, err)
	}
}

// check is nil if take would probably succeed.
func (c *counter) check(ctx context.Context, k key, size int64) error {
	done := c.counts.Load()
	if done == 0 {
		return c.uncounted(0)
	}
	if err := c.doc.Refresh(ctx); err != nil {
		return err
	}
	a, _ := c.doc.Last()
	return c.refusal(a, k, size, done)
}

// has says whether the last count has found the digest, so that its bytes are counted,
// even if its links were deleted since. Only the process that counted knows.
func (c *counter) has(a *account, k key) bool {
	f := c.found.Load()
	if f == nil || f.id != a.Last {
		return false
	}
	_, ok := f.sizes.of(k)
	return ok
}

// refusal is nil if there is room. A count comes first only if it can find some: bytes
// that were charged twice or that were deleted.
func (c *counter) refusal(a *account, k key, size, done int64) error {
	switch {
	case a.Counted.IsZero(): // the document was lost
		return c.uncounted(done)
	case a.Bytes+size <= c.Limit || c.has(a, k):
		return nil
	case a.Bytes-a.Charged+size <= c.Limit || c.isOld(a.Counted, a) || c.isOld(c.found.Load().ended, a):
		return c.uncounted(done)
	}
	return &oci.Error{Code: oci.CodeDenied, Err: registry.ErrOverQuota, Message: fmt.Sprintf(
		"the quota of %s does not allow %d bytes more: %d of %d bytes are used; delete what is not needed and let the garbage collection free it",
		c.Prefix, size, a.Bytes, c.Limit,
	)}
}

// isOld says whether the outcome of a count that ended then is not believed any more.
func (c *counter) isOld(ended time.Time, a *account) bool {
	age, pause := time.Since(ended), max(c.pause, 10*a.Took)
	return age > pause || age < -pause
}

// uncounted asks for a count, unless one has ended since done were finished.
func (c *counter) uncounted(done int64) error {
	return &registry.Uncounted{Count: func(ctx context.Context) error { return c.count(ctx, done) }}
}
