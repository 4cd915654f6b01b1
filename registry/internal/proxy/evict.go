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

	"slipway/registry/internal/lastpull"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// EvictOptions configures Evict.
type EvictOptions struct {
	Store   storage.Store
	Pulls   *lastpull.File
	MaxSize int64         // bytes of all caches, 0 = no limit
	Recent  time.Duration // what was used within it stays: it may be on its way to a client
}

// Eviction is the result of Evict.
type Eviction struct {
	Held    int64 // bytes of the caches afterwards, without what other repositories need
	Evicted int   // manifests
	Freed   int64 // bytes that nothing needs any more, to be freed by a collection
	Loose   int   // blobs of the caches that no manifest needs
}

// lowWater is the part of the limit to which the caches shrink, so that not every pull evicts.
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

// census is the content of the storage.
type census struct {
	cache   *Registry
	o       EvictOptions
	pulled  lastpull.Times
	read    time.Time // when pulled was read to evict by it
	entries []*entry
	users   map[oci.Digest]int // entries that need a blob
	sizes   map[oci.Digest]int64
	local   map[oci.Digest]bool // blobs that other repositories have
	linked  map[oci.Digest]bool // blobs that caches have

	problems []error // what could not be read; it stays
}

// failed records a problem, up to a number that fits a log line.
func (n *census) failed(err error) {
	if len(n.problems) < maxProblems {
		n.problems = append(n.problems, err)
	}
}

const maxProblems = 10

// Evict removes manifests that were not pulled for their TTL and, above the limit, those that
// were not pulled for the longest time. A garbage collection frees their bytes. What can't be
// read stays, and is in the error.
func (c *Registry) Evict(ctx context.Context, o EvictOptions) (Eviction, error) {
	c.mu.Lock()
	before := c.size
	c.size.added = 0 // bytes that arrive meanwhile may count twice
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
		if o.MaxSize > 0 && done.Held > o.MaxSize { // the rest is in use
			err, c.size.retry = errOverLimit, c.now().Add(min(evictRetry, o.Recent))
		}
	}
	c.mu.Unlock()
	c.opts.Metrics.evictedSome(done, err)
	if done.Evicted > 0 || err != nil {
		c.opts.Log.Info("evicted manifests from the caches", zap.Int("manifests", done.Evicted), zap.Int64("bytes", done.Freed), zap.Int64("held", done.Held), zap.Error(err))
	}
	return done, err
}

var errOverLimit = errors.New("the caches hold more than proxy.maxsize, all of it in use lately")

// take reads the storage.
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

// others records the blobs of a repository that isn't a cache.
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

// links records the digests below a prefix.
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

// cached records the manifests and blobs of a cache.
func (n *census) cached(ctx context.Context, s *Source, name oci.Name) error {
	tags := map[oci.Digest][]oci.Tag{}
	for t, err := range tree.Tags(ctx, n.o.Store, name) {
		if err != nil {
			return err
		}
		tags[t.Target] = append(tags[t.Target], t.Name)
	}
	failed := func(d oci.Digest, err error) { n.failed(fmt.Errorf("%s@%s: %w", name, d, err)) }
	add := func(link tree.Link, needs []oci.Digest) {
		e := &entry{name: name, digest: link.Digest, tags: tags[link.Digest], used: link.Modified, ttl: s.TTL, needs: slices.Concat(needs, []oci.Digest{link.Digest})}
		if at, ok := n.pulled.Of(name, link.Digest); ok && at.After(e.used) {
			e.used = at
		}
		if err := n.needs(ctx, e); err != nil {
			failed(e.digest, err)
			return
		}
		n.entries = append(n.entries, e)
	}
	g, err := tree.ReadGraph(ctx, n.o.Store, name, func(link tree.Link, err error) error {
		if tree.Unreadable(err) {
			add(link, nil)
		} else {
			failed(link.Digest, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, node := range g.Nodes {
		add(node.Link, node.Needs)
	}
	for _, alg := range tree.Algorithms() {
		if err := n.links(ctx, layout.Layers(name, alg), alg, n.linked); err != nil {
			return err
		}
	}
	return nil
}

// needs records what an entry needs, and how large it is.
func (n *census) needs(ctx context.Context, e *entry) error {
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

// size returns the bytes of a blob, 0 if other repositories need it too.
func (n *census) size(d oci.Digest) int64 {
	if n.local[d] {
		return 0
	}
	return n.sizes[d]
}

// oversize returns the entries that exceed the limit alone, and the bytes that only those of
// them need that are still in use. No other image has to leave for these: they never fit.
func (n *census) oversize(now time.Time) (found map[*entry]bool, inUse int64) {
	found = map[*entry]bool{}
	users := map[oci.Digest]int{}
	for _, e := range n.entries {
		var bytes int64
		for _, d := range e.needs {
			bytes += n.size(d)
		}
		if n.o.MaxSize == 0 || bytes <= n.o.MaxSize {
			continue
		}
		found[e] = true
		if now.Sub(e.used) > n.o.Recent {
			continue
		}
		for _, d := range e.needs {
			if users[d]++; users[d] == n.users[d] {
				inUse += n.size(d)
			}
		}
	}
	return found, inUse
}

// evict removes entries: first those that alone exceed the limit, then the least recently used.
func (n *census) evict(ctx context.Context) (done Eviction, err error) {
	now := n.cache.now()
	oversize, exempt := n.oversize(now)
	slices.SortStableFunc(n.entries, func(a, b *entry) int {
		if oversize[a] != oversize[b] {
			return map[bool]int{true: -1, false: 1}[oversize[a]]
		}
		return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.digest, b.digest))
	})
	for d, users := range n.users {
		if users > 0 {
			done.Held += n.size(d)
		}
	}
	for d := range n.linked {
		if n.users[d] == 0 && !n.local[d] {
			done.Loose++
		}
	}
	over := n.o.MaxSize > 0 && done.Held-exempt > n.o.MaxSize
	for _, e := range n.entries {
		idle := now.Sub(e.used)
		if idle <= n.o.Recent {
			continue
		}
		expired := e.ttl > 0 && idle > e.ttl
		full := over && float64(done.Held-exempt) > lowWater*float64(n.o.MaxSize)
		if !expired && !full {
			continue
		}
		removed, err := false, n.refresh(ctx)
		if at, ok := n.pulled.Of(e.name, e.digest); ok && at.After(e.used) {
			continue // it was pulled meanwhile
		} else if err == nil {
			removed, err = n.cache.opts.Registry.Cached(e.name).Evict(ctx, e.digest, e.tags, e.used)
		}
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

// pullsFresh is the time for which a reading of the pulls serves evictions.
const pullsFresh = 5 * time.Second

// refresh reads the pulls again: taking the census and evicting may take long.
func (n *census) refresh(ctx context.Context) error {
	if time.Since(n.read) < pullsFresh {
		return nil
	}
	pulled, err := n.o.Pulls.Read(ctx)
	if err == nil {
		n.pulled, n.read = pulled, time.Now()
	}
	return err
}
