package collect

import (
	"context"
	"slices"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// confirmRepository is the second look at a repository. Whatever manifest is in
// its place stays, with all that it needs; links to blobs that are in place keep
// their bytes.
func (r *run) confirmRepository(ctx context.Context, name oci.Name) error {
	repo, err := r.read(ctx, name)
	if err != nil {
		return err
	}
	for i := range repo.revisions {
		repo.revisions[i].live = true
	}
	if err := r.addAside(ctx, repo); err != nil {
		return err
	}
	if err := r.confirmTags(ctx, repo); err != nil {
		return err
	}
	r.spreadNeeds(repo)
	r.need(repo, confirmed)
	for _, alg := range algorithms {
		if err := r.restoreLayers(ctx, repo, alg); err != nil {
			return err
		}
		if err := r.confirmLayers(ctx, repo, alg); err != nil {
			return err
		}
	}
	return r.restoreRevisions(ctx, repo)
}

// addAside adds the manifests that were set aside. Of a repository that is left
// alone they all come back.
func (r *run) addAside(ctx context.Context, repo *repository) error {
	for _, alg := range algorithms {
		err := r.eachAside(ctx, layout.Revisions(repo.name, alg), alg, func(_ string, d oci.Digest) error {
			if _, ok := repo.index[r.digests.add(d)]; ok {
				return nil // and in place
			}
			rev := revision{digest: d, aside: true, live: repo.troubled}
			rev.id = r.digests.add(d)
			if _, err := r.manifest(ctx, &rev); err != nil && ctx.Err() != nil {
				return err
			} else if err == nil || repo.troubled {
				r.addRevision(repo, rev)
			}
			return nil // what cannot be read now, nobody can bring back
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// confirmTags reaches the manifests that were set aside in the moment in which
// they got a tag. Tags that come later need no look: each push of a tag puts the
// manifest in its place anew.
func (r *run) confirmTags(ctx context.Context, repo *repository) error {
	if !slices.ContainsFunc(repo.revisions, func(rev revision) bool { return rev.aside }) {
		return nil
	}
	tags, err := r.tags(ctx, repo)
	for _, d := range tags {
		if at, ok := repo.index[r.digests.add(d)]; ok {
			repo.revisions[at].live = true
		}
	}
	return err
}

// spreadNeeds reaches the manifests that live ones need, but neither subjects
// nor referrers: those are a matter of what should be kept, not of what must.
func (r *run) spreadNeeds(repo *repository) {
	repo.referrers = nil
	r.spread(repo)
}

// restoreLayers moves back the links that manifests of the repository need.
func (r *run) restoreLayers(ctx context.Context, repo *repository, alg oci.Algorithm) error {
	return r.eachAside(ctx, layout.Layers(repo.name, alg), alg, func(_ string, d oci.Digest) error {
		if i, ok := r.digests.find(d); !repo.troubled && (!ok || !r.neededHere(i)) {
			return nil
		}
		if r.report.LayerLinks > 0 {
			r.report.LayerLinks--
		}
		return r.restore(ctx, layout.LayerLink(repo.name, d))
	})
}

// confirmLayers keeps the bytes of the links that are in place.
func (r *run) confirmLayers(ctx context.Context, repo *repository, alg oci.Algorithm) error {
	for e, err := range r.Driver.List(ctx, layout.Layers(repo.name, alg), "") {
		if absent(err) {
			return nil
		}
		if err != nil {
			return err
		}
		d, err := oci.ParseDigest(string(alg) + ":" + e.Name)
		if err != nil || !e.Dir {
			continue
		}
		if i, ok := r.digests.find(d); ok && alg == oci.SHA256 && r.digests.note(i).what&confirmed != 0 {
			continue
		}
		path := layout.LayerLink(repo.name, d)
		if _, err := r.Driver.Stat(ctx, path); absent(err) {
			continue
		} else if err != nil {
			return err
		}
		if err := r.keepLayer(ctx, d, path, confirmed); err != nil {
			return err
		}
	}
	return nil
}

// restoreRevisions moves back the manifests that others need. Their bytes, and
// those of what they need, come back in purge: until then readers find them
// aside, and nothing is purged before.
func (r *run) restoreRevisions(ctx context.Context, repo *repository) error {
	for i := range repo.revisions {
		rev := &repo.revisions[i]
		if !rev.aside || !rev.live {
			continue
		}
		if err := r.restore(ctx, layout.RevisionLink(repo.name, rev.digest)); err != nil {
			return err
		}
		if r.report.Manifests.Freed > 0 {
			r.report.Manifests.Freed--
			r.report.Manifests.Kept++
		}
	}
	return nil
}

// eachAside calls f for each object that was set aside from below dir.
func (r *run) eachAside(ctx context.Context, dir string, alg oci.Algorithm, f func(name string, d oci.Digest) error) error {
	for e, err := range r.Driver.List(ctx, layout.AsideDir(dir), "") {
		if absent(err) {
			return nil
		}
		if err != nil {
			return err
		}
		hex, ok := layout.FromAside(e.Name, "link")
		if !ok {
			continue
		}
		d, err := oci.ParseDigest(string(alg) + ":" + hex)
		if err != nil {
			continue
		}
		if err := f(e.Name, d); err != nil {
			return err
		}
	}
	return nil
}
