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

// attempt calls f, and again if the attempt expired before its writes took effect or before the
// answer: an object may have been written with a date that is too old by then.
// Beyond maxAttempts the client is asked to try again.
func (r *Registry) attempt(ctx context.Context, f func(*storage.Attempt) error) (err error) {
	for range maxAttempts {
		a := r.store.Begin()
		if err = f(a); err == nil {
			err = a.Err()
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

// advertise is attempt for an f that only finds objects that the answer confirms. A read-only registry
// renews nothing.
func (r *Registry) advertise(ctx context.Context, f func(*storage.Attempt) error) error {
	if r.opts.ReadOnly {
		return f(nil)
	}
	return r.attempt(ctx, f)
}

// retryContended is the Retry-After for a client that keeps losing to concurrent changes.
const retryContended = time.Second

func contended(cause error) *oci.Error {
	return &oci.Error{Code: oci.CodeUnavailable, Message: "too many concurrent changes; try again", RetryAfter: retryContended, Err: cause}
}
