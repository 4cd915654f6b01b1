package registry

import (
	"cmp"
	"container/list"
	"sync"
	"sync/atomic"

	"slipway/registry/internal/oci"
)

// remembered is a cache: it may forget anything at any time, and what it returns
// was put under that key. One that several processes share can take the place of
// this package's.
type remembered[K comparable, V any] interface {
	get(key K) (value V, ok bool)
	put(key K, value V, weight int64)
	forget(key K)
}

// caches is all that a registry remembers. Nothing of it is needed to be right.
type caches struct {
	manifests remembered[oci.Digest, *Manifest]
	listings  remembered[string, *listing] // by prefix
	tags      remembered[oci.Name, *tagList]
	tagNames  remembered[oci.Name, []tagName] // of large repositories of a remote store, in the order of listings
	referrers remembered[oci.Name, *referrerIndex]
	integrity remembered[oci.Digest, integrity]
	origins   remembered[oci.Digest, origins]
	pointers  remembered[string, pointer] // by key of a tag's link
	blobs     remembered[oci.Digest, seenBytes]
	left      remembered[string, int64] // bytes of uploads that a request of this process has left
}

// Bounds of what is remembered, in bytes of memory (about) or in entries.
const (
	manifestCache  = 8 << 20
	listingCache   = 8 << 20
	tagCache       = 4 << 20
	referrerCache  = 32 << 20 // a repository with more, some 300,000 manifests, has them read by each request
	integrityCache = 16 << 10
	originCache    = 8 << 10
	pointerCache   = 16 << 10
	blobCache      = 8 << 10
	leftCache      = 4 << 10
)

func newCaches(manifests int64) caches {
	if manifests <= 0 {
		manifests = manifestCache
	}
	return caches{
		manifests: newCache[oci.Digest, *Manifest](manifests),
		listings:  newCache[string, *listing](listingCache),
		tags:      newCache[oci.Name, *tagList](tagCache),
		tagNames:  newCache[oci.Name, []tagName](tagCache),
		referrers: newCache[oci.Name, *referrerIndex](referrerCache),
		integrity: newCache[oci.Digest, integrity](integrityCache),
		origins:   newCache[oci.Digest, origins](originCache),
		pointers:  newCache[string, pointer](pointerCache),
		blobs:     newCache[oci.Digest, seenBytes](blobCache),
		left:      newCache[string, int64](leftCache),
	}
}

// cache is a map bounded by the weight of its values. It evicts by SIEVE
// (Zhang et al., NSDI 2024): a hit only sets a bit, so readers share the lock.
type cache[K comparable, V any] struct {
	mu        sync.RWMutex
	max, used int64
	entries   map[K]*entry[K, V]
	order     list.List // of *entry[K, V], the newest in front
	hand      *list.Element
}

type entry[K comparable, V any] struct {
	key     K
	value   V
	weight  int64
	visited atomic.Bool
	place   *list.Element
}

func newCache[K comparable, V any](maxWeight int64) *cache[K, V] {
	return &cache[K, V]{max: maxWeight, entries: map[K]*entry[K, V]{}}
}

func (c *cache[K, V]) get(key K) (value V, ok bool) {
	c.mu.RLock()
	e, ok := c.entries[key]
	if ok {
		value = e.value
		if !e.visited.Load() {
			e.visited.Store(true)
		}
	}
	c.mu.RUnlock()
	return value, ok
}

// put keeps the value, unless it outweighs the whole cache.
func (c *cache[K, V]) put(key K, value V, weight int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.entries[key]; ok {
		c.drop(old)
	}
	if weight > c.max {
		return
	}
	for c.used+weight > c.max {
		c.evict()
	}
	e := &entry[K, V]{key: key, value: value, weight: weight}
	e.place = c.order.PushFront(e)
	c.entries[key] = e
	c.used += weight
}

func (c *cache[K, V]) forget(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[key]; ok {
		c.drop(e)
	}
}

// evict drops the first entry from the hand towards the newest that nobody has
// asked for since the hand last passed.
func (c *cache[K, V]) evict() {
	for {
		at := cmp.Or(c.hand, c.order.Back())
		e := at.Value.(*entry[K, V])
		if !e.visited.Swap(false) {
			c.hand = at // drop moves it on
			c.drop(e)
			return
		}
		c.hand = at.Prev()
	}
}

func (c *cache[K, V]) drop(e *entry[K, V]) {
	if c.hand == e.place {
		c.hand = e.place.Prev()
	}
	c.order.Remove(e.place)
	delete(c.entries, e.key)
	c.used -= e.weight
}
