// Package membudget bounds the memory that large bodies take.
package membudget

import (
	"context"
	"time"

	"slipway/registry/internal/oci"
	"slipway/shared/shares"
)

// patience is the longest time that a request waits for memory.
const patience = 5 * time.Second

// Budget bounds the bytes of large bodies. A client has a share, so that one that is slow
// doesn't keep others waiting. Methods are safe for concurrent use.
type Budget struct{ pool *shares.Pool }

// New returns a budget of all bytes, of which one client gets at most share.
func New(all, share int64) *Budget { return &Budget{shares.New(all, share)} }

// Acquire is [Budget.Reserve] for a caller that needs the room unchanged. It must call release once.
func (b *Budget) Acquire(ctx context.Context, client string, n int64) (release func(), err error) {
	room, err := b.Reserve(ctx, client, n)
	if err != nil {
		return nil, err
	}
	return room.Release, nil
}

// Reserve blocks until there is room for n bytes, or for a full share if n is more. The error is
// UNAVAILABLE if that takes too long or ctx is done. The caller must release the room.
func (b *Budget) Reserve(ctx context.Context, client string, n int64) (*shares.Held, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	room, err := b.pool.Take(ctx, client, n)
	if err != nil {
		return nil, &oci.Error{Code: oci.CodeUnavailable, Message: "too many large requests at the same time; try again", RetryAfter: patience, Err: err}
	}
	return room, nil
}
