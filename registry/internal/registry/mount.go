package registry

import (
	"context"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// MountBlob puts a blob that another repository has into this one, without an
// upload. canPull describes what the caller may read; nil stands for everything.
//
// BLOB_UNKNOWN and DENIED mean that the client should upload instead, unless
// quota.ErrExceeded is inside.
func (r Repository) MountBlob(ctx context.Context, d oci.Digest, from oci.Name, canPull func(oci.Name) bool) (oci.Descriptor, error) {
	if err := r.writable(); err != nil {
		return oci.Descriptor{}, err
	}
	var found mountSource
	err := r.try(ctx, func(r Repository) (err error) {
		if found, err = r.findMount(ctx, d, from, canPull); err != nil {
			return err
		}
		_, err = r.rely(ctx, layout.BlobData(found.target))
		if absent(err) {
			return blobUnknown(d, err)
		}
		if err != nil {
			return err
		}
		link := layout.LayerLink(r.name, d)
		charged, err := r.charge(ctx, link, found.desc.Size)
		if err != nil {
			return err
		}
		defer charged.Keep()
		return r.apply(ctx, storage.Stage{{Key: link, Content: layout.Link(found.target)}})
	})
	if err != nil {
		return oci.Descriptor{}, fault(err)
	}
	return found.desc, nil
}

// mountSource is the place of a blob to be mounted.
type mountSource struct {
	desc   oci.Descriptor
	target oci.Digest // under which its bytes are stored
}

func (r Repository) findMount(ctx context.Context, d oci.Digest, from oci.Name, canPull func(oci.Name) bool) (mountSource, error) {
	if canPull != nil && !canPull(from) {
		return mountSource{}, oci.Explain(oci.CodeDenied, "the caller may not pull from the repository that has the blob")
	}
	desc, target, err := r.reg.Repository(from).healthyBlob(ctx, d)
	return mountSource{desc, target}, err
}
