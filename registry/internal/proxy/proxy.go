// Package proxy makes repositories a cache of other registries: which repository
// belongs to which upstream, what is fresh enough, what is done when an upstream
// fails, how a blob goes to clients while it comes, and what leaves the cache.
//
// It implements registry.Upstream. All that it remembers itself may be lost; what is
// cached is in the tree, as if it had been pushed.
package proxy

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/registry"
)

// Options is what a Cache is made of.
type Options struct {
	Sources []*Source
	// Local selects repositories that belong to no upstream although one has the empty
	// prefix.
	Local pattern.Names
	// AnyNamespace passes over the namespace of requests, as distribution does.
	AnyNamespace bool
	// CommitTimeout is how long a cache may take to make a blob durable that has come; 0 = 5 minutes.
	CommitTimeout time.Duration
	// Unknown is how long an upstream is not asked again for what it did not have; 0 = 10 s.
	Unknown time.Duration
	// Patience is how long a client waits for an upstream that checks a tag of which there
	// is a copy; 0 = 3 s.
	Patience time.Duration
	Log      *zap.Logger // nil = none
	Metrics  *Metrics    // nil = none
	Now      func() time.Time
}

// Cache is the caches of all upstreams. Methods are safe for concurrent use.
type Cache struct {
	opts    Options
	now     func() time.Time
	ctx     context.Context // of what goes on though its client has left
	stop    context.CancelFunc
	work    sync.WaitGroup
	checked *recent[tagKey, time.Time]
	unknown *recent[any, time.Time] // until when something is not asked for again
	lists   *recent[any, listed]

	manifests single[any, *registry.Manifest]
	stats     single[blobKey, int64]
	listing   single[any, listed]

	mu      sync.Mutex
	flights map[blobKey]*flight
	stuck   atomic.Int64 // commits that the store does not end
	size    size
	shared  bool // with other replicas
}

type tagKey struct {
	name oci.Name
	tag  oci.Tag
}

type manifestKey struct {
	name   oci.Name
	digest oci.Digest
}

type blobKey struct {
	name   oci.Name
	digest oci.Digest
}

// Bounds of what is remembered, in entries, and of lists in bytes of memory (about).
const (
	maxRemembered = 50_000
	maxLists      = 32 << 20
)

// New makes a cache. It does no I/O.
func New(o Options) *Cache {
	o.CommitTimeout = cmp.Or(o.CommitTimeout, 5*time.Minute)
	o.Unknown = cmp.Or(o.Unknown, 10*time.Second)
	o.Patience = cmp.Or(o.Patience, 3*time.Second)
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Cache{
		opts: o, now: o.Now, flights: map[blobKey]*flight{},
		checked: newRecent[tagKey, time.Time](maxRemembered), unknown: newRecent[any, time.Time](maxRemembered), lists: newRecent[any, listed](maxLists),
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	for _, s := range o.Sources {
		s.cache = c
		s.metrics = o.Metrics.of(s.Name)
		s.budget = newBudget(s.PerHour, o.Now)
	}
	return c
}

// Close ends what is under way.
func (c *Cache) Close() {
	c.stop()
	c.work.Wait()
	for _, s := range c.opts.Sources {
		s.Client.Close()
	}
}

// Sources are the upstreams.
func (c *Cache) Sources() []*Source { return c.opts.Sources }

// Caches implements registry.Upstream.
func (c *Cache) Caches(name oci.Name) bool { return c.source(name) != nil }

// Twin is the other name of a repository that is cached under two: hub/alpine is
// hub/library/alpine where hub stands for Docker Hub. It is "" for all others.
func (c *Cache) Twin(name oci.Name) oci.Name {
	s := c.source(name)
	if s == nil {
		return ""
	}
	if twin := s.twin(name); c.source(twin) == s {
		return twin
	}
	return ""
}

// Within implements registry.Upstream. A namespace that no upstream stands for may be a
// name of this registry itself: then only what is local is served.
func (c *Cache) Within(namespace string, name oci.Name) (oci.Name, error) {
	if c.opts.AnyNamespace {
		return name, nil
	}
	for _, s := range c.opts.Sources {
		if !s.standsFor(namespace) {
			continue
		}
		here, err := s.local(name)
		if err == nil && c.source(here) != s { // the name is that of another upstream, or local
			return "", notWithin(namespace, name)
		}
		return here, err
	}
	if c.Caches(name) {
		return "", notWithin(namespace, name)
	}
	return name, nil
}

func notWithin(namespace string, name oci.Name) error {
	return oci.NewError(oci.CodeNameUnknown, map[string]string{"name": string(name), "ns": namespace})
}

// source is what the repository is a cache of; nil for local repositories. Of several
// prefixes the longest counts.
func (c *Cache) source(name oci.Name) (found *Source) {
	for _, s := range c.opts.Sources {
		if s.has(name) && (found == nil || len(s.Prefix) > len(found.Prefix)) {
			found = s
		}
	}
	if found != nil && found.Prefix == "" && c.opts.Local.Match(name) {
		return nil
	}
	return found
}

// Hit implements registry.Upstream.
func (c *Cache) Hit(name oci.Name, blob bool) {
	if s := c.source(name); s != nil {
		s.metrics.hit(blob)
	}
}

// recent is a map that is bounded by the weight of what it holds: when it is full it
// forgets everything, which costs a few requests.
type recent[K comparable, V any] struct {
	mu        sync.RWMutex
	max, used int
	entries   map[K]weighed[V]
}

type weighed[V any] struct {
	value  V
	weight int
}

func newRecent[K comparable, V any](max int) *recent[K, V] {
	return &recent[K, V]{max: max, entries: map[K]weighed[V]{}}
}

func (m *recent[K, V]) get(key K) (V, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	e, ok := m.entries[key]
	return e.value, ok
}

// put keeps the value, unless it outweighs the whole map.
func (m *recent[K, V]) put(key K, value V, weight int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(key)
	if weight > m.max {
		return
	}
	if m.used+weight > m.max {
		clear(m.entries)
		m.used = 0
	}
	m.entries[key] = weighed[V]{value, weight}
	m.used += weight
}

func (m *recent[K, V]) forget(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(key)
}

// drop needs m.mu.
func (m *recent[K, V]) drop(key K) {
	m.used -= m.entries[key].weight
	delete(m.entries, key)
}
