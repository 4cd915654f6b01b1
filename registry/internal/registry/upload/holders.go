package upload

import (
	"context"
	"errors"
	"sync"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// holders knows which request of this process works on which upload, so that a new
// one takes over from one that hangs. Between processes the store fences.
type holders struct {
	mu   sync.Mutex
	live map[string]*Upload
}

// take makes u, whose turn the caller has, the holder of its upload, if the one
// before has not gone further than that point.
func (h *holders) take(ctx context.Context, u *Upload, at Point) error {
	var before *Upload
	for {
		h.mu.Lock()
		now := h.live[u.key]
		free := now == nil || now == before
		if free {
			h.live[u.key] = u
		}
		h.mu.Unlock()
		if free {
			return nil
		}
		if err := now.give(ctx, at); err != nil {
			return err
		}
		before = now
	}
}

// release ends u's hold, if it still has it.
func (h *holders) release(u *Upload) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.live[u.key] == u {
		delete(h.live, u.key)
	}
}

// size is the size of the upload if a request works on it, else -1.
func (h *holders) size(key string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if u := h.live[key]; u != nil {
		return u.told.Load()
	}
	return -1
}

// holderKey names an upload among those of all repositories.
func holderKey(name oci.Name, id string) string { return string(name) + "@" + id }

// give gives the upload up for another request that continues at that point. Writes and
// commits under way are waited for.
func (u *Upload) give(ctx context.Context, at Point) error {
	err := u.lock(ctx)
	if errors.Is(err, storage.ErrUploadTaken) {
		return nil
	}
	if err != nil {
		return err
	}
	defer u.unlock()
	if !u.done && at.Exact && at.Offset != u.size {
		return wrongOffset(u.size, at.Offset)
	}
	u.suspend() //nolint:errcheck // the other one sees what the store has
	u.stop()
	return nil
}
