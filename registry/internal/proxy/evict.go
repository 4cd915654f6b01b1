package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pulls"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/tree"
)

// EvictOptions says what may stay in the caches.
type EvictOptions struct {
	Store    storage.Store
	Registry *registry.Registry
	Pulls    *pulls.File
	MaxSize  int64         // bytes of all caches, 0 = no limit
	Recent   time.Duration // what was used since then stays in any case: it may be on its way to a client
	Share    bool          // leave the size for the LearnSize of other replicas
}

// Eviction is what one search for what may leave has found and done.
type Eviction struct {
	Held    int64 // bytes of the caches afterwards, without what other repositories need
	Evicted int   // manifests
	Freed   int64 // bytes that nothing needs any more
	Loose   int   // blobs of the caches that no manifest needs: pulled without one, or left over
}

// lowWater is the part of the limit to which the caches are emptied, so that not each
// pull evicts something.
const lowWater = 0.9

// entry is a manifest in a cache.
type entry struct {
	name   oci.Name
	digest oci.Digest
	tags   []oci.Tag
	used   time.Time
	ttl    time.Duration
	needs  []oci.Digest // what its bytes lead to, and itself
}

// census is what is in the tree.
type census struct {
	cache   *Cache
	o       EvictOptions
	pulled  pulls.Times
	entries []*entry
	users   map[oci.Digest]int // by how many entries a blob is needed
	sizes   map[oci.Digest]int64
	local   map[oci.Digest]bool // blobs that other repositories have
	linked  map[oci.Digest]bool // blobs that caches have

	problems []error // of what could not be read; the rest is dealt with
}

// failed notes a problem, up to a number that a log can hold.
func (n *census) failed(err error) {
	if len(n.problems) < maxProblems {
		n.problems = append(n.problems, err)
	}
}

const maxProblems = 10

// Evict removes from the caches what was not pulled for its time and, above the limit, what
// was not pulled for the longest time. Its bytes are left to the garbage collection. What
// cannot be read stays, and is in the error.
func (c *Cache) Evict(ctx context.Context, o EvictOptions) (Eviction, error) {
	c.mu.Lock()
	before := c.size
	c.size.added = 0 // what comes meanwhile may be counted twice
	c.mu.Unlock()
	n := &census{cache: c, o: o, users: map[oci.Digest]int{}, sizes: map[oci.Digest]int64{}, local: map[oci.Digest]bool{}, linked: map[oci.Digest]bool{}}
	err := n.take(ctx)
	var done Eviction
	if err == nil {
		done, err = n.evict(ctx)
	}
	err = errors.Join(append(n.problems, err)...)
	c.mu.Lock()
	if err != nil {
		c.size.held, c.size.added, c.size.retry = before.held, before.added+c.size.added, c.now().Add(evictRetry)
	} else {
		c.size.held, c.size.counted, c.size.retry = done.Held, c.now(), time.Time{}
	}
	c.mu.Unlock()
	if err == nil && o.Share {
		c.tellSize(ctx, o.Store, done.Held)
	}
	if err == nil && o.MaxSize > 0 && done.Held > o.MaxSize {
		err = errOverLimit
	}
	c.opts.Metrics.evictedSome(done, err)
	if done.Evicted > 0 || err != nil {
		c.opts.Log.Info("evicted manifests from the caches", zap.Int("manifests", done.Evicted), zap.Int64("bytes", done.Freed), zap.Int64("held", done.Held), zap.Error(err))
	}
	return done, err
}

var errOverLimit = errors.New("the caches hold more than proxy.maxsize, all of it in use lately")

// take reads the tree.
func (n *census) take(ctx context.Context) (err error) {
	if n.pulled, err = n.o.Pulls.Read(ctx); err != nil {
		return err
	}
	for name, err := range tree.Everything(ctx, n.o.Store) {
		if err == nil {
			if s := n.cache.source(name); s != nil {
				err = n.cached(ctx, s, name)
			} else {
				err = n.others(ctx, name)
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			n.failed(fmt.Errorf("%s: %w", name, err))
		}
	}
	return nil
}

// others notes what a repository has that is no cache.
func (n *census) others(ctx context.Context, name oci.Name) error {
	for _, alg := range tree.Algorithms() {
		for _, prefix := range []string{layout.Layers(name, alg), layout.Revisions(name, alg)} {
			if err := n.links(ctx, prefix, alg, n.local); err != nil {
				return err
			}
		}
	}
	return nil
}

// links notes the digests below a prefix.
func (n *census) links(ctx context.Context, prefix string, alg oci.Algorithm, in map[oci.Digest]bool) error {
	for info, err := range n.o.Store.List(ctx, prefix, storage.ListOptions{Names: true}) {
		if err != nil {
			return err
		}
		hex := strings.TrimSuffix(info.Key[len(prefix)+1:], "/")
		if d, err := oci.ParseDigest(string(alg) + ":" + hex); err == nil && info.Prefix {
			in[d] = true
		}
	}
	return nil
}

// cached notes the manifests of a cache, and which blobs it has.
func (n *census) cached(ctx context.Context, s *Source, name oci.Name) error {
	tags := map[oci.Digest][]oci.Tag{}
	for t, err := range tree.Tags(ctx, n.o.Store, name) {
		if err != nil {
			return err
		}
		tags[t.Target] = append(tags[t.Target], t.Name)
	}
	for link, err := range tree.Revisions(ctx, n.o.Store, name) {
		if err != nil {
			return err
		}
		e := &entry{name: name, digest: link.Digest, tags: tags[link.Digest], used: link.Modified, ttl: s.TTL}
		if at, ok := n.pulled.Of(name, link.Digest); ok && at.After(e.used) {
			e.used = at
		}
		if err := n.needs(ctx, e); err != nil {
			n.failed(fmt.Errorf("%s@%s: %w", name, e.digest, err))
			continue
		}
		n.entries = append(n.entries, e)
	}
	for _, alg := range tree.Algorithms() {
		if err := n.links(ctx, layout.Layers(name, alg), alg, n.linked); err != nil {
			return err
		}
	}
	return nil
}

// loose counts the blobs that no manifest needs.
func (n *census) loose() (count int) {
	for d := range n.linked {
		if n.users[d] == 0 && !n.local[d] {
			count++
		}
	}
	return count
}

// needs finds what a manifest leads to. Indexes need nothing: their manifests are entries of
// their own.
func (n *census) needs(ctx context.Context, e *entry) error {
	e.needs = []oci.Digest{e.digest}
	body, _, err := storage.Read(ctx, n.o.Store, layout.BlobData(e.digest), maxManifest)
	if err == nil {
		if refs, err := oci.ReadReferences(body); err == nil {
			e.needs = append(append(e.needs, refs.Needed...), refs.Elsewhere...)
		}
	} else if !errors.Is(err, storage.ErrNotExist) && !errors.Is(err, storage.ErrTooLarge) {
		return err
	}
	slices.Sort(e.needs)
	e.needs = slices.Compact(e.needs)
	for _, d := range e.needs {
		if _, known := n.sizes[d]; known {
			continue
		}
		info, err := n.o.Store.Stat(ctx, layout.BlobData(d))
		if err != nil && !errors.Is(err, storage.ErrNotExist) {
			return err
		}
		n.sizes[d] = info.Size
	}
	for _, d := range e.needs {
		n.users[d]++
	}
	return nil
}

const maxManifest = 64 << 20

// size is what a blob takes that only caches need.
func (n *census) size(d oci.Digest) int64 {
	if n.local[d] {
		return 0
	}
	return n.sizes[d]
}

func (n *census) held() (bytes int64) {
	for d, users := range n.users {
		if users > 0 {
			bytes += n.size(d)
		}
	}
	return bytes
}

// evict removes what has to go, what was not used for the longest time first.
func (n *census) evict(ctx context.Context) (done Eviction, err error) {
	now := n.cache.now()
	slices.SortStableFunc(n.entries, func(a, b *entry) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.digest, b.digest)) })
	done.Held, done.Loose = n.held(), n.loose()
	over := n.o.MaxSize > 0 && done.Held > n.o.MaxSize
	for _, e := range n.entries {
		idle := now.Sub(e.used)
		if idle <= n.o.Recent {
			continue
		}
		expired := e.ttl > 0 && idle > e.ttl
		full := over && float64(done.Held) > lowWater*float64(n.o.MaxSize)
		if !expired && !full {
			continue
		}
		removed, err := n.o.Registry.Cached(e.name).Evict(ctx, e.digest, e.tags, e.used)
		if ctx.Err() != nil {
			return done, ctx.Err()
		}
		if err != nil {
			n.failed(fmt.Errorf("%s@%s: %w", e.name, e.digest, err))
		}
		if !removed {
			continue
		}
		done.Evicted++
		for _, d := range e.needs {
			if n.users[d]--; n.users[d] == 0 {
				done.Held -= n.size(d)
				done.Freed += n.size(d)
			}
		}
	}
	return done, nil
}
