package collect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"slipway/registry/internal/storage"
)

// fence is the section of all that a run changes: it is over when a lease runs out that the
// run holds. A process that was stopped meanwhile sends nothing any more, though it may not
// know yet that another run has begun, or that its list is void.
type fence struct {
	mu   sync.Mutex
	held []timed
}

// timed is a lease that ends by itself. Those of files do not.
type timed interface {
	storage.Lease
	Deadline() time.Time
}

// hold replaces the leases.
func (f *fence) hold(leases ...storage.Lease) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = nil
	for _, l := range leases {
		if t, ok := l.(timed); ok {
			f.held = append(f.held, t)
		}
	}
}

// Run implements storage.Section.
func (f *fence) Run() string { return "" }

// Listed implements storage.Section.
func (f *fence) Listed(...string) bool { return false }

// Deadline implements storage.Section.
func (f *fence) Deadline() (first time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.held {
		if t := l.Deadline(); first.IsZero() || t.Before(first) {
			first = t
		}
	}
	return first
}

// End implements storage.Section.
func (f *fence) End() {}

// apply changes the store as long as the run may.
func (r *run) apply(ctx context.Context, stage storage.Stage) error {
	r.fence.mu.Lock()
	free := len(r.fence.held) == 0
	r.fence.mu.Unlock()
	if free {
		return r.Store.Apply(ctx, nil, stage)
	}
	err := r.Store.Apply(ctx, &r.fence, stage)
	if errors.Is(err, storage.ErrExpired) {
		err = fmt.Errorf("%w: %w", errLockLost, err)
	}
	return err
}
