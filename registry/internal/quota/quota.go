// Package quota bounds the bytes under prefixes of repositories: each blob and manifest
// that is linked under a prefix counts once. A document in the storage, which all replicas
// share, never counts too little; what it counts twice, such as a blob that two
// repositories of the prefix have, a walk over the tree finds before anybody is refused.
package quota

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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
	// countPause is how long the outcome of a count is believed to which nothing was
	// added since. Only a deletion can have made room in that time.
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
type Quotas struct{ list []*counter }

// New does no I/O. All processes that push to the store have the same quotas.
func New(store storage.Store, coordinator storage.Coordinator, quotas []Quota, log *zap.Logger) *Quotas {
	all := &Quotas{}
	for _, q := range quotas {
		all.list = append(all.list, &counter{
			Quota: q, store: store, coordinator: coordinator, log: log, pause: countPause,
			doc: document.New[account](store, layout.Quota(q.Prefix)),
		})
	}
	return all
}

// Bounds implements registry.Quota.
func (all *Quotas) Bounds(name oci.Name) bool {
	return slices.ContainsFunc(all.list, func(c *counter) bool { return c.Covers(name) })
}

// Take implements registry.Quota.
func (all *Quotas) Take(ctx context.Context, name oci.Name, size int64) error {
	for _, c := range all.list {
		if !c.Covers(name) {
			continue
		}
		if err := c.take(ctx, size); err != nil {
			return err
		}
	}
	return nil
}

// Count counts what is under each quota, so that the first push need not wait for it.
func (all *Quotas) Count(ctx context.Context) {
	for _, c := range all.list {
		if err := c.count(ctx, 0); err != nil && ctx.Err() == nil {
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
	doc         *document.Document[account]

	mu      sync.Mutex
	waiting []*charge
	writing sync.Mutex // held while charges are written

	counting sync.Mutex
	counts   atomic.Int64     // finished by this process
	sizes    map[digest]int64 // found by the last count; under counting
}

// charge is bytes that wait to be counted. The error is valid once it was written.
type charge struct {
	size int64
	err  error
}

var errNothingTaken = errors.New("nothing was taken")

// take counts size bytes more if there is room. Those who wait at the same time are
// written together.
func (c *counter) take(ctx context.Context, size int64) error {
	done := c.counts.Load()
	if done == 0 { // what is written may be of a time without this quota
		return c.uncounted(0)
	}
	mine := &charge{size: size}
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
			if a.Counted.IsZero() { // the document was lost
				x.err = c.uncounted(done)
			} else if x.err = c.refusal(a, x.size, done); x.err == nil {
				a.charge(x.size)
				taken = true
			}
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

// refusal is nil if there is room.
func (c *counter) refusal(a *account, size, done int64) error {
	if a.Bytes+size <= c.Limit {
		return nil
	}
	pause := max(c.pause, 10*a.Took)
	if age := time.Since(a.Counted); a.Charged > 0 || age > pause || age < -pause {
		return c.uncounted(done)
	}
	return &oci.Error{Code: oci.CodeDenied, Message: fmt.Sprintf(
		"the quota of %s does not allow %d bytes more: %d of %d bytes are used; delete what is not needed and let the garbage collection free it",
		c.Prefix, size, a.Bytes, c.Limit)}
}

// uncounted asks for a count, unless one has ended since done were finished.
func (c *counter) uncounted(done int64) error {
	return &registry.Uncounted{Count: func(ctx context.Context) error { return c.count(ctx, done) }}
}

// count walks over the tree. What is charged meanwhile is added, so that nothing that the
// walk has passed already is missing; who was charged before has written its links when
// the walk begins.
func (c *counter) count(ctx context.Context, done int64) error {
	c.counting.Lock()
	defer c.counting.Unlock()
	if c.counts.Load() > done {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout)
	defer cancel()
	began, id := time.Now(), rand.Text()
	err := c.doc.Update(ctx, func(a *account) error {
		a.Counts = slices.DeleteFunc(a.Counts, func(r running) bool { return began.Sub(r.Began) > 2*countTimeout }) // its process died
		a.Counts = append(a.Counts, running{ID: id, Began: began})
		return nil
	})
	if err != nil {
		return err
	}
	var bytes int64
	if err = c.coordinator.Barrier(ctx); err == nil {
		bytes, err = c.walk(ctx)
	}
	ended := c.doc.Update(ctx, func(a *account) error {
		i := slices.IndexFunc(a.Counts, func(r running) bool { return r.ID == id })
		if i < 0 {
			return errors.New("the count was lost with its document")
		}
		if err == nil {
			a.Charged = a.Counts[i].Charged
			a.Bytes, a.Counted, a.Took = bytes+a.Charged, time.Now().UTC(), time.Since(began)
		}
		a.Counts = slices.Delete(a.Counts, i, i+1)
		return nil
	})
	if err = errors.Join(err, ended); err == nil {
		c.counts.Add(1)
	}
	return err
}
