package proxy

import "time"

// size estimates what the caches hold: what the last search counted, and what this process has
// added since.
type size struct {
	held    int64
	added   int64
	counted time.Time
	retry   time.Time // when to repeat a search that failed
}

// How often the tree is searched.
const (
	evictEvery = time.Hour
	evictRetry = 5 * time.Minute // after a search that failed
)

// count adds n bytes to the estimate.
func (c *Registry) count(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size.added += n
}

// EvictionDue reports whether Evict should run: the caches may exceed the limit, or the last
// run failed or was long ago. shared is set if other processes fill the same caches.
func (c *Registry) EvictionDue(limit int64, shared bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, now := &c.size, c.now()
	if now.Before(s.retry) {
		return false
	}
	room := limit - s.held
	if shared && room > 0 {
		room /= sharedRoom
	}
	return s.counted.IsZero() || now.Sub(s.counted) >= evictEvery || limit > 0 && s.added > room
}

// sharedRoom is the divisor for the room below the limit that one replica may fill before it
// searches again: the others fill it too.
const sharedRoom = 4
