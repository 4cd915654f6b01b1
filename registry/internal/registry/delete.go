package registry

import (
	"context"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// Delete removes all manifests and tags of the repository, in one step, so that
// it leaves the catalog. Uploads under way go on, and blobs are left to the
// collection of garbage: somebody may have been told of them. Repositories below
// it stay. NAME_UNKNOWN if there is none; DENIED (with ErrImmutable inside) if a
// tag of it may not be deleted.
func (r Repository) Delete(ctx context.Context) error {
	if err := r.reg.deletable(); err != nil {
		return err
	}
	mu := r.lock()
	mu.Lock()
	defer mu.Unlock()
	if _, err := r.reg.driver.Stat(ctx, layout.Manifests(r.name)); absent(err) {
		return r.nameUnknown()
	} else if err != nil {
		return fault(err)
	}
	if err := r.refuseRemovalOfAll(ctx); err != nil {
		return err
	}
	manifests, err := r.revisions(ctx)
	if err != nil {
		return fault(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	if err := r.eraseAll(ctx); err != nil {
		return fault(err)
	}
	r.reg.targets.take(r.name)
	for _, d := range manifests {
		r.releasePromises(ctx, d, 1)
	}
	return nil
}

// eraseAll removes manifests and tags. What of them collectors of garbage and
// removers of tags have aside goes first, so that nobody puts it back, and what they
// take aside in that moment goes last.
func (r Repository) eraseAll(ctx context.Context) error {
	aside := driver.Stage{
		{Path: layout.ExpiringTags(r.name), Remove: true},
		{Path: layout.AsideDir(layout.Manifests(r.name)), Remove: true},
	}
	return r.reg.commit(ctx, aside, driver.Stage{{Path: layout.Manifests(r.name), Remove: true}}, aside)
}

func (r Repository) refuseRemovalOfAll(ctx context.Context) error {
	if len(r.reg.immutable) == 0 {
		return nil
	}
	tags, _, err := r.Tags(ctx, -1, "")
	if err != nil {
		return err
	}
	for _, tag := range tags {
		if err := r.refuseRemoval(oci.Tag(tag)); err != nil {
			return err
		}
	}
	return nil
}

// revisions is the digests of the manifests, and perhaps of some that were
// deleted.
func (r Repository) revisions(ctx context.Context) ([]oci.Digest, error) {
	var all []oci.Digest
	for _, alg := range []oci.Algorithm{oci.SHA256, oci.SHA384, oci.SHA512} {
		list, err := r.reg.listDirs(ctx, layout.Revisions(r.name, alg))
		if absent(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, digests(alg, list.names)...)
	}
	return all, nil
}
