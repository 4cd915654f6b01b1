package registry

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// serving is why this process has not joined those who serve the store; nil if it has,
// or need not, because it only maintains the store. While it has not, an offline
// collection may delete without asking anybody, so no push is accepted, and nobody is told
// that something will stay. Pulls and deletions rely on nothing that a collection removes.
type serving struct{ without atomic.Pointer[error] }

// How often and how long joining is tried again.
const (
	joinEvery = time.Second
	joinWait  = 5 * time.Second
)

// Serve joins those who serve the store, until leave, which is never nil. An error
// says why it cannot join yet: then pushes are answered with UNAVAILABLE, and
// joining is tried again until it succeeds.
func (r *Registry) Serve(ctx context.Context) (leave func(), err error) {
	r.serving.without.Store(&errLeft)
	lease, err := r.join(ctx)
	stay, stop := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() { r.stayJoined(stay, lease) })
	return func() {
		stop()
		done.Wait()
	}, err
}

func (r *Registry) join(ctx context.Context) (storage.Lease, error) {
	lease, err := r.coordinator.Join(ctx)
	if err != nil {
		r.serving.without.Store(&err)
		return nil, err
	}
	r.serving.without.Store(nil)
	return lease, nil
}

// stayJoined joins whenever the process has not, until ctx ends.
func (r *Registry) stayJoined(ctx context.Context, lease storage.Lease) {
	for {
		if lease != nil {
			select {
			case <-lease.Lost():
			case <-ctx.Done():
			}
			r.serving.without.Store(&errLeft)
			lease.Release()
		}
		if ctx.Err() != nil {
			return
		}
		wait, cancel := context.WithTimeout(ctx, joinWait)
		lease, _ = r.join(wait) // serving keeps the reason
		cancel()
		if lease != nil {
			continue
		}
		select {
		case <-time.After(joinEvery):
		case <-ctx.Done():
		}
	}
}

var errLeft = errors.New("the registry is stopping, or has lost its lease")

// hasJoined is nil if collections respect what this process relies on. Else the error
// begins with what cannot be done.
func (r *Registry) hasJoined(what string) error {
	without := r.serving.without.Load()
	if without == nil {
		return nil
	}
	err := *without
	reason := faultText(err)
	switch {
	case errors.Is(err, storage.ErrNoSpace):
		reason = "the storage is full; deleting images or collecting garbage frees space"
	case errors.Is(err, storage.ErrBusy):
		reason = "an offline garbage collection is running"
	case errors.Is(err, errLeft):
		reason = err.Error()
	}
	return unavailable(what+reason, err)
}

func unavailable(message string, cause error) *oci.Error {
	return &oci.Error{Code: oci.CodeUnavailable, Message: message, Err: cause}
}
