// Package membudget bounds the memory that large bodies take.
package membudget

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"slipway/registry/internal/oci"
)

// patience is the longest time that a request waits for memory.
const patience = 5 * time.Second

// Budget bounds the bytes of large bodies. A client has a share, so that one that is slow
// doesn't keep others waiting. Methods are safe for concurrent use.
type Budget struct {
	all   *semaphore.Weighted
	share int64

	mu      sync.Mutex
	clients map[string]*clientShare
}

type clientShare struct {
	room  *semaphore.Weighted
	users int
}

// New returns a budget of all bytes, of which one client gets at most share.
func New(all, share int64) *Budget {
	return &Budget{all: semaphore.NewWeighted(all), share: share, clients: map[string]*clientShare{}}
}

// Acquire is [Budget.Reserve] for a caller that needs the room unchanged. It must call release once.
func (b *Budget) Acquire(ctx context.Context, client string, n int64) (release func(), err error) {
	room, err := b.Reserve(ctx, client, n)
	if err != nil {
		return nil, err
	}
	return room.Release, nil
}

// Room is a part of a budget. It is not safe for concurrent use.
type Room struct {
	budget *Budget
	client string
	own    *clientShare
	n      int64
}

// Shrink gives back all but n bytes.
func (r *Room) Shrink(n int64) {
	if n = max(n, 0); n < r.n {
		r.budget.all.Release(r.n - n)
		r.own.room.Release(r.n - n)
		r.n = n
	}
}

// Release gives back the room. It must be called once.
func (r *Room) Release() {
	r.Shrink(0)
	r.budget.leave(r.client, r.own)
}

// Reserve blocks until there is room for n bytes, or for a full share if n is more. The error is
// UNAVAILABLE if that takes too long or ctx is done. The caller must release the room.
func (b *Budget) Reserve(ctx context.Context, client string, n int64) (*Room, error) {
	n = min(n, b.share)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	own := b.enter(client)
	err := own.room.Acquire(ctx, n)
	if err == nil {
		if err = b.all.Acquire(ctx, n); err != nil {
			own.room.Release(n)
		}
	}
	if err != nil {
		b.leave(client, own)
		return nil, &oci.Error{Code: oci.CodeUnavailable, Message: "too many large requests at the same time; try again", RetryAfter: patience, Err: err}
	}
	return &Room{b, client, own, n}, nil
}

func (b *Budget) enter(client string) *clientShare {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.clients[client]
	if own == nil {
		own = &clientShare{room: semaphore.NewWeighted(b.share)}
		b.clients[client] = own
	}
	own.users++
	return own
}

func (b *Budget) leave(client string, own *clientShare) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(b.clients, client)
	}
}
