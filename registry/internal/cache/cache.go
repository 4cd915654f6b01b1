// Package cache keeps values within a bound, and coalesces the calls that make them. An entry
// may be dropped at any time: a cache is an optimization, correctness never depends on it.
package cache

import (
	"cmp"
	"container/list"
	"sync"
	"sync/atomic"
)

// Cache is a map bounded by the weight of its values. It evicts by SIEVE
// (Zhang et al., NSDI 2024): a hit only sets a bit, so readers share the lock. All methods
// are safe for concurrent use.
type Cache[K comparable, V any] struct {
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

// New makes a cache whose values together weigh at most maxWeight: estimated bytes, or entries.
func New[K comparable, V any](maxWeight int64) *Cache[K, V] {
	return &Cache[K, V]{max: maxWeight, entries: map[K]*entry[K, V]{}}
}

// Get returns the value of the key.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
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

// Put stores the value, unless it alone outweighs the cache.
func (c *Cache[K, V]) Put(key K, value V, weight int64) {
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

// Forget drops the value of the key.
func (c *Cache[K, V]) Forget(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[key]; ok {
		c.drop(e)
	}
}

// evict drops the first entry, from the hand towards the newest, that was not read since the
// hand last passed it.
func (c *Cache[K, V]) evict() {
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

func (c *Cache[K, V]) drop(e *entry[K, V]) {
	if c.hand == e.place {
		c.hand = e.place.Prev()
	}
	c.order.Remove(e.place)
	delete(c.entries, e.key)
	c.used -= e.weight
}
