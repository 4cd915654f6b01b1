package registry

import (
	"context"
	"errors"

	"slipway/registry/internal/oci"
)

// ErrOverQuota is inside the DENIED error of a push that a quota has no room for.
var ErrOverQuota = errors.New("over the quota")

// Quota bounds the bytes that repositories have.
type Quota interface {
	// Bounds says whether there is a bound for the repository.
	Bounds(name oci.Name) bool
	// Take counts the size bytes of a digest for the repository, whose link is written
	// next, in the section of the caller. The error is an *oci.Error with DENIED and
	// ErrOverQuota inside if there is no room, an *Uncounted if what is there has to be
	// counted before that can be said, or the store's.
	Take(ctx context.Context, name oci.Name, d oci.Digest, size int64) error
}

// Uncounted is the error of a Quota that has to count first, outside of any section.
type Uncounted struct {
	Count func(context.Context) error
}

func (u *Uncounted) Error() string { return "the bytes under a quota have to be counted first" }

// charge counts the bytes of d that are about to be linked at key, unless the repository
// has them already. Caches of other registries have bounds of their own.
func (r Repository) charge(ctx context.Context, key string, d oci.Digest, size int64) error {
	if r.reg.opts.Quota == nil || r.filler || !r.reg.opts.Quota.Bounds(r.name) {
		return nil
	}
	if _, err := r.reg.store.Stat(ctx, key); !absent(err) {
		return err
	}
	return r.reg.opts.Quota.Take(ctx, r.name, d, size)
}
