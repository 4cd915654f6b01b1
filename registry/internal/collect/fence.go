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

func (f *fence) add(l storage.Lease) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t, ok := l.(timed); ok {
		f.held = append(f.held, t)
	}
}

// drop forgets a lease that is given back while the run goes on.
func (f *fence) drop(l storage.Lease) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, t := range f.held {
		if storage.Lease(t) == l {
			f.held = append(f.held[:i:i], f.held[i+1:]...)
			return
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
