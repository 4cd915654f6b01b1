package registry

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry/quota"
	"slipway/registry/internal/storage"
)

// Repository is a named set of manifests, tags and blobs. It is a small value:
// it need not be kept or closed.
type Repository struct {
	reg       *Registry
	name      oci.Name
	keepsTags bool // tags that exist are not moved
	filler    bool // a pull-through cache fills it, see Cached
	classes   []string
	by        string           // who changes it, for the records of pushes and deletions
	attempt   *storage.Attempt // keeps what it finds and relies on; nil = it relies on nothing

	unrecorded func() // nil = no callback
}

// Puller reads a repository as clients do. Repository implements it from the storage alone;
// package proxy adds what an upstream has.
type Puller interface {
	Name() oci.Name
	Manifest(ctx context.Context, ref oci.Reference) (*Manifest, error)
	StatManifest(ctx context.Context, ref oci.Reference) (*Manifest, error)
	StatBlob(ctx context.Context, d oci.Digest) (oci.Descriptor, error)
	OpenBlob(ctx context.Context, d oci.Digest) (*Blob, error)
	BlobURL(ctx context.Context, d oci.Digest, client netip.Addr) (url string, desc oci.Descriptor, err error)
	Tags(ctx context.Context, n int, last string) ([]string, Page, error)
	Referrers(ctx context.Context, subject oci.Digest, artifactType, after string, limit int) ([]oci.Descriptor, Page, error)
}

var _ Puller = Repository{}

// Repository returns the repository of that name, which need not exist. It
// does no I/O.
func (r *Registry) Repository(name oci.Name) Repository { return Repository{reg: r, name: name} }

// KeepingTags returns the repository for a caller who may set new tags but not move those
// that exist: then the error of PutManifest is DENIED.
func (r Repository) KeepingTags() Repository {
	r.keepsTags = true
	return r
}

// OfClasses returns the repository for a caller whose token names the classes that manifests may
// have, "" being that of images: where [validation.Rules] has classes, PutManifest is DENIED for
// others. nil stands for all.
func (r Repository) OfClasses(classes []string) Repository {
	r.classes = classes
	return r
}

// By returns the repository for a caller of that name, which the records of pushes and deletions hold.
func (r Repository) By(who string) Repository {
	r.by = who
	return r
}

// OnUnrecorded returns the repository for a caller whose function is called when a deletion can't be
// undone, although deletions are kept, because the storage is full.
func (r Repository) OnUnrecorded(f func()) Repository {
	r.unrecorded = f
	return r
}

// Name returns the repository's name.
func (r Repository) Name() oci.Name { return r.name }

// What a repository has, and in which it keeps manifests and tags, or blobs.
const (
	manifestsDir = "_manifests"
	layersDir    = "_layers"
)

// known reports whether the repository holds anything.
func (r Repository) known(ctx context.Context) (bool, error) {
	l, err := r.reg.store.Below(ctx, layout.Repository(r.name))
	if err != nil {
		return false, err
	}
	return l.Has(manifestsDir) || l.Has(layersDir), nil
}

// HasManifests reports whether the repository holds a manifest, as those in the catalog do.
func (r Repository) HasManifests(ctx context.Context) (bool, error) {
	l, err := r.reg.store.Below(ctx, layout.Repository(r.name))
	if err != nil {
		return false, err
	}
	return l.Has(manifestsDir), nil
}

// unknown returns the error for something that is not in the repository: e, or
// NAME_UNKNOWN if there is no repository either.
func (r Repository) unknown(ctx context.Context, e *oci.Error) error {
	known, err := r.known(ctx)
	switch {
	case err != nil:
		return err
	case !known:
		return r.nameUnknown()
	default:
		return e
	}
}

func (r Repository) nameUnknown() *oci.Error {
	return oci.NewError(oci.CodeNameUnknown, map[string]string{"name": string(r.name)})
}

// writable returns an error if clients may not change the repository.
func (r Repository) writable() error { return r.reg.writable() }

// deletable returns an error if clients may not delete from the repository.
func (r Repository) deletable() error {
	if err := r.writable(); err != nil {
		return err
	}
	if !r.reg.opts.DeleteEnabled {
		return unsupported("deletion is off in this registry (storage.delete.enabled)")
	}
	return nil
}

// reserve begins to account for a request that adds to the repository; see [quota.Quotas.Reserve].
// Caches of other registries have bounds of their own.
func (r Repository) reserve(upload string, bytes int64) *quota.Reservation {
	if r.filler || r.reg.opts.Quota == nil {
		return nil
	}
	return r.reg.opts.Quota.Reserve(r.name, upload, bytes)
}

// charge takes size bytes for the link that is about to be written at key, unless the repository
// has the link already. The caller must keep the reservation if the error is nil.
func (r Repository) charge(ctx context.Context, key string, size int64) (*quota.Reservation, error) {
	h := r.reserve("", 0)
	if h == nil {
		return nil, nil
	}
	_, err := r.reg.store.Stat(ctx, key)
	if absent(err) {
		err = h.Take(ctx, size)
	}
	if err != nil {
		h.Settle(0)
		return nil, err
	}
	return h, nil
}

// maxAttempts bounds how often a request that took too long, or lost to a concurrent change,
// starts again.
const maxAttempts = 3

// errOvertaken ends an attempt whose result was undone by a concurrent change.
var errOvertaken = errors.New("it was changed concurrently")

// try calls f with the repository in an attempt, and again if the attempt expired before its writes took
// effect or before the answer: an object may have been written with a date that is too old by then.
// After maxAttempts the error asks the client to try again.
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
			return ctx.Err()
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

// rely describes the object at key. In an attempt, a collection keeps the object until the attempt has ended.
func (r Repository) rely(ctx context.Context, key string) (storage.Info, error) {
	return storage.Rely(ctx, r.reg.store, r.attempt, key)
}

// apply makes the changes durable, even if the client hangs up. In an attempt they may rely on the objects
// that rely returned.
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

// detach returns the context of a change that completes even if the client hangs up. A
// deadline of ctx still applies.
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
