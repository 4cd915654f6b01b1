package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/storage"
)

// size is how much the caches hold, about: what was counted in the tree, and what came since.
type size struct {
	held    int64
	added   int64 // since then
	latest  int64 // of that, since EvictionDue was last asked
	counted time.Time
	retry   time.Time // when a search that failed is repeated
}

// How often the tree is looked at.
const (
	evictEvery = time.Hour
	evictRetry = 5 * time.Minute // after a search that failed
)

// count adds what came.
func (c *Cache) count(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size.added += n
	c.size.latest += n
}

// EvictionDue says whether something may have to leave: because more has come than may
// stay, or because the last search was long ago or failed.
func (c *Cache) EvictionDue(limit int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, now := &c.size, c.now()
	s.latest = 0
	if now.Before(s.retry) {
		return false
	}
	room := limit - s.held
	if c.shared && room > 0 {
		room /= sharedRoom
	}
	return s.counted.IsZero() || now.Sub(s.counted) >= evictEvery || limit > 0 && s.added > room
}

// sharedRoom is the part of what is left below the limit that one replica fills before the
// tree is looked at: the others fill it, too.
const sharedRoom = 4

// sharedSize is what a replica tells the others.
type sharedSize struct {
	Held int64 `json:"held"`
}

const maxSharedSize = 1 << 10

// LearnSize takes over what another replica has counted since this one did. What came here
// since the last call of EvictionDue may be counted twice.
func (c *Cache) LearnSize(ctx context.Context, s storage.Store) {
	c.mu.Lock()
	c.shared = true
	c.mu.Unlock()
	content, info, err := storage.Read(ctx, s, layout.CacheSize, maxSharedSize)
	var shared sharedSize
	if err == nil {
		err = json.Unmarshal(content, &shared)
	}
	if err != nil {
		if !errors.Is(err, storage.ErrNotExist) && ctx.Err() == nil {
			c.opts.Log.Warn("cannot read what another replica has counted in the caches", zap.Error(err))
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if info.Modified.After(c.size.counted) {
		c.opts.Metrics.holds(shared.Held)
		c.size = size{held: shared.Held, added: c.size.latest, latest: c.size.latest, counted: info.Modified}
	}
}

// tellSize is for LearnSize of others, who count themselves if it fails.
func (c *Cache) tellSize(ctx context.Context, s storage.Store, held int64) {
	content, err := json.Marshal(sharedSize{held})
	if err == nil {
		err = s.Apply(ctx, nil, storage.Stage{{Key: layout.CacheSize, Content: content, Ephemeral: true}})
	}
	if err != nil {
		c.opts.Log.Warn("cannot record what the caches hold; other replicas count it again", zap.Error(err))
	}
}
