package registry

import (
	"context"
	"errors"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// maxAttempts bounds how often a request that took too long, or lost to a concurrent change,
// starts again.
const maxAttempts = 3

// errOvertaken ends an attempt whose result was undone by a concurrent change.
var errOvertaken = errors.New("it was changed concurrently")

// try calls f with the repository in an attempt, and again if the attempt expired before its writes took
// effect or before the answer: an object may have been written with a date that is too old by then.
// Beyond maxAttempts the client is asked to try again.
func (r Repository) try(ctx context.Context, f func(Repository) error) (err error) {
	for range maxAttempts {
		r.attempt = r.reg.store.Begin()
		if err = f(r); err == nil {
			err = r.attempt.Err()
		}
		if !errors.Is(err, storage.ErrExpired) && !errors.Is(err, errOvertaken) {
			return err
		}
		if ctx.Err() != nil {
			return fault(ctx.Err())
		}
	}
	return err
}

// advertise is try for an f that only finds objects that the answer confirms. A read-only registry
// renews nothing.
func (r Repository) advertise(ctx context.Context, f func(Repository) error) error {
	if r.reg.opts.ReadOnly {
		return f(r)
	}
	return r.try(ctx, f)
}

// rely describes the object at key. In an attempt it is kept for as long as the attempt needs it.
func (r Repository) rely(ctx context.Context, key string) (storage.Info, error) {
	return storage.Rely(ctx, r.reg.store, r.attempt, key)
}

// apply makes the changes durable, though the client may hang up meanwhile. In an attempt they may rely
// on what rely has found.
func (r Repository) apply(ctx context.Context, stages ...storage.Stage) error {
	if err := r.attempt.Denied(); err != nil {
		return err
	}
	ctx, cancel := detach(ctx)
	defer cancel()
	return r.reg.store.Apply(ctx, r.attempt, stages...)
}

// applyTimeout bounds a change that continues after its client has hung up.
const applyTimeout = 10 * time.Minute

// detach returns the context of a change that is not left half done when the client
// hangs up. A deadline of ctx still applies.
func detach(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := applyTimeout
	if at, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(at))
	}
	return context.WithTimeout(context.WithoutCancel(ctx), limit)
}

// retryContended is the Retry-After for a client that keeps losing to concurrent changes.
const retryContended = time.Second

func contended(cause error) *oci.Error {
	return &oci.Error{Code: oci.CodeUnavailable, Message: "too many concurrent changes; try again", RetryAfter: retryContended, Err: cause}
}
