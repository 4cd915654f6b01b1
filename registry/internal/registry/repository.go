package registry

import (
	"context"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
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
		return false, fault(err)
	}
	return l.Has(manifestsDir) || l.Has(layersDir), nil
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
