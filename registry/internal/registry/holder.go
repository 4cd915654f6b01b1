package registry

import (
	"context"
	"errors"
	"sync"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// holders maps each upload to the request of this process that holds it, so that a new
// request takes over from one that hangs. Between processes the store fences.
type holders struct {
	mu   sync.Mutex
	live map[string]*Upload
}

// take makes u the holder of its upload, if the holder before it has not gone further than that point.
// The caller must hold u's turn.
func (h *holders) take(ctx context.Context, u *Upload, at UploadPoint) error {
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

// size returns the size of the upload if a request holds it, else -1.
func (h *holders) size(key string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if u := h.live[key]; u != nil {
		return u.shown.Load()
	}
	return -1
}

// holderKey names an upload among those of all repositories.
func holderKey(name oci.Name, id string) string { return string(name) + "@" + id }

// give yields the upload to another request that continues at that point. It waits for writes and
// commits in progress.
func (u *Upload) give(ctx context.Context, at UploadPoint) error {
	err := u.lock(ctx)
	if errors.Is(err, storage.ErrUploadTaken) {
		return nil
	}
	if err != nil {
		return err
	}
	defer u.unlock()
	if u.phase != phaseEnded && at.Exact && at.Offset != u.size {
		return wrongOffset(u.size, at.Offset)
	}
	u.suspend() //nolint:errcheck // the next holder sees what the store has
	u.stop()
	return nil
}
