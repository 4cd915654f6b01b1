package registry

import (
	"context"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// MountBlob puts a blob that another repository has into this one, without an
// upload. canPull describes what the caller may read; nil stands for everything.
// from "" leaves the choice of the repository to the registry: one that was
// lately seen with the blob and that the caller may read or, where everybody
// may read everything, none at all, if only the blob is there. Looking through
// every repository would cost more than the upload it saves.
//
// BLOB_UNKNOWN and DENIED mean that the client should upload instead, unless
// quota.ErrExceeded is inside.
func (r Repository) MountBlob(ctx context.Context, d oci.Digest, from oci.Name, canPull func(oci.Name) bool) (oci.Descriptor, error) {
	if err := r.writable(); err != nil {
		return oci.Descriptor{}, err
	}
	var found mountSource
	err := r.reg.attempt(ctx, func(a *storage.Attempt) (err error) {
		if found, err = r.findMount(ctx, d, from, canPull); err != nil {
			return err
		}
		_, err = storage.Rely(ctx, r.reg.store, a, layout.BlobData(found.target))
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
		defer charged.Settle(ctx, found.desc.Size)
		return r.reg.apply(ctx, a, storage.Stage{{Key: link, Content: layout.Link(found.target)}})
	})
	if err != nil {
		return oci.Descriptor{}, fault(err)
	}
	r.reg.origins.Add(d, r.name)
	return found.desc, nil
}

// mountSource is where a blob to be mounted was found.
type mountSource struct {
	desc   oci.Descriptor
	target oci.Digest // under which its bytes are stored
}

func (r Repository) findMount(ctx context.Context, d oci.Digest, from oci.Name, canPull func(oci.Name) bool) (mountSource, error) {
	if from == "" {
		return r.reg.findAnywhere(ctx, d, canPull)
	}
	if canPull != nil && !canPull(from) {
		return mountSource{}, oci.NewError(oci.CodeDenied, "the caller may not pull from the repository that has the blob")
	}
	return r.reg.Repository(from).mountSource(ctx, d)
}

func (r Repository) mountSource(ctx context.Context, d oci.Digest) (mountSource, error) {
	desc, target, err := r.healthyBlob(ctx, nil, d)
	return mountSource{desc, target}, err
}

func (r *Registry) findAnywhere(ctx context.Context, d oci.Digest, canPull func(oci.Name) bool) (mountSource, error) {
	for _, name := range r.origins.Of(ctx, d) {
		if canPull != nil && !canPull(name) {
			continue
		}
		found, err := r.Repository(name).mountSource(ctx, d)
		if !oci.HasCode(err, oci.CodeBlobUnknown) {
			return found, err
		}
	}
	if canPull != nil {
		return mountSource{}, blobUnknown(d, nil)
	}
	info, err := r.store.Stat(ctx, layout.BlobData(d))
	if absent(err) {
		return mountSource{}, blobUnknown(d, nil)
	}
	if err == nil {
		err = r.whole(ctx, d, info)
	}
	desc := oci.Descriptor{MediaType: mediaTypeBlob, Digest: d, Size: info.Size}
	return mountSource{desc: desc, target: d}, r.damageIsAbsence(d, fault(err))
}
