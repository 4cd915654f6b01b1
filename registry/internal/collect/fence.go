package collect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"slipway/registry/internal/storage"
)

// fence is the section of all that a run changes: it is over when a lease runs out that the
// run holds. A process that was stopped meanwhile sends nothing any more, though it may not
// know yet that another run has begun, or that its list is void.
type fence []storage.Lease

// Run implements storage.Section.
func (fence) Run() string { return "" }

// Listed implements storage.Section.
func (fence) Listed(...string) bool { return false }

// Deadline implements storage.Section. Leases of files do not end by themselves.
func (f fence) Deadline() (first time.Time) {
	for _, l := range f {
		if timed, ok := l.(interface{ Deadline() time.Time }); ok {
			if t := timed.Deadline(); first.IsZero() || t.Before(first) {
				first = t
			}
		}
	}
	return first
}

// End implements storage.Section.
func (fence) End() {}

// apply changes the store as long as the run may. In a dry run it changes nothing.
func (r *run) apply(ctx context.Context, stage storage.Stage) error {
	if r.DryRun {
		return nil
	}
	held := fence{r.lock}
	if r.alone.Load() {
		held = append(held, r.exclusive)
	}
	err := r.Store.Apply(ctx, held, stage)
	if errors.Is(err, storage.ErrExpired) {
		err = fmt.Errorf("%w: %w", errLockLost, err)
	}
	return err
}
