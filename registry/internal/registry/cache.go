package registry

import (
	"sync"
	"sync/atomic"
)

// cache is a map bounded by the weight of its values. It evicts by SIEVE
// (Zhang et al., NSDI 2024): a hit only sets a bit, so readers share the lock.
type cache[K comparable, V any] struct {
	mu         sync.RWMutex
	max, used  int64
	entries    map[K]*entry[K, V]
	head, tail *entry[K, V] // newest, oldest
	hand       *entry[K, V]
}

type entry[K comparable, V any] struct {
	key          K
	value        V
	weight       int64
	visited      atomic.Bool
	newer, older *entry[K, V]
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
	c.keep(key, value, weight)
}

// getOrPut is the value that is there, or the one given, which is kept then.
func (c *cache[K, V]) getOrPut(key K, value V, weight int64) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[key]; ok {
		return e.value
	}
	c.keep(key, value, weight)
	return value
}

// keep needs c.mu.
func (c *cache[K, V]) keep(key K, value V, weight int64) {
	if old, ok := c.entries[key]; ok {
		c.drop(old)
	}
	if weight > c.max {
		return
	}
	for c.used+weight > c.max {
		c.evict()
	}
	e := &entry[K, V]{key: key, value: value, weight: weight, older: c.head}
	if c.head != nil {
		c.head.newer = e
	} else {
		c.tail = e
	}
	c.head = e
	c.entries[key] = e
	c.used += weight
}

// take returns the value and forgets it.
func (c *cache[K, V]) take(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if ok {
		value = e.value
		c.drop(e)
	}
	return value, ok
}

// evict drops the first entry from the hand towards the newest that nobody has
// asked for since the hand last passed.
func (c *cache[K, V]) evict() {
	e := c.hand
	for {
		if e == nil {
			e = c.tail
		}
		if !e.visited.Swap(false) {
			break
		}
		e = e.newer
	}
	c.hand = e.newer
	c.drop(e)
}

func (c *cache[K, V]) drop(e *entry[K, V]) {
	if c.hand == e {
		c.hand = e.newer
	}
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		c.head = e.older
	}
	if e.older != nil {
		e.older.newer = e.newer
	} else {
		c.tail = e.newer
	}
	delete(c.entries, e.key)
	c.used -= e.weight
}
