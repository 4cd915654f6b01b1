package registry

import (
	"context"
	"hash/maphash"
	"sync"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// Repository is a named set of manifests, tags and blobs. It is a small value:
// nobody keeps or closes it.
type Repository struct {
	reg  *Registry
	name oci.Name
}

// Name is the repository's name.
func (r Repository) Name() oci.Name { return r.name }

// lock is held shared by pushes of manifests and alone by deletions, so that a
// deletion takes away all that points at a manifest or nothing that was pushed
// after it. It is never held while a client is read from or written to.
func (r Repository) lock() *sync.RWMutex {
	return &r.reg.locks[maphash.String(r.reg.seed, string(r.name))%uint64(len(r.reg.locks))]
}

// known says whether anything was ever pushed to the repository.
func (r Repository) known(ctx context.Context) (bool, error) {
	for _, dir := range []string{
		layout.Manifests(r.name), layout.Layers(r.name, oci.SHA256), layout.Layers(r.name, oci.SHA512),
	} {
		if _, err := r.reg.driver.Stat(ctx, dir); err == nil {
			return true, nil
		} else if !absent(err) {
			return false, fault(err)
		}
	}
	return false, nil
}

// unknown is the error for something that is not in the repository: e, or
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
