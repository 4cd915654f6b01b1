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
func (r *run) confirmRepository(ctx context.Context, repo *repository) error {
	if err := r.read(ctx, repo); err != nil {
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
	// Referrers are not reached from here on: those are a matter of what should
	// be kept, not of what must.
	repo.referrers = nil
	r.spread(repo)
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
	var aside []revision
	for _, alg := range algorithms {
		err := r.eachDigest(ctx, layout.AsideDir(layout.Revisions(repo.name, alg)), alg, ofLink, func(d oci.Digest) error {
			i := r.digests.add(d)
			if _, ok := repo.find(i); ok {
				return nil // and in place
			}
			// What cannot be read now, nobody can bring back.
			if err := r.manifest(ctx, i, d); err == nil || repo.troubled {
				aside = append(aside, revision{id: i, aside: true, live: repo.troubled})
			}
			return ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	repo.add(aside...)
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
	repo.reachTagged(tags)
	return err
}

// restoreLayers moves back the links that manifests of the repository need.
func (r *run) restoreLayers(ctx context.Context, repo *repository, alg oci.Algorithm) error {
	return r.eachDigest(ctx, layout.AsideDir(layout.Layers(repo.name, alg)), alg, ofLink, func(d oci.Digest) error {
		if i, ok := r.digests.find(d); !repo.troubled && (!ok || !repo.needsBlob(i)) {
			return nil
		}
		r.book(func(p *Report) { p.LayerLinks = max(0, p.LayerLinks-1) })
		return r.restore(ctx, layout.LayerLink(repo.name, d))
	})
}

// confirmLayers keeps the bytes of the links that are in place.
func (r *run) confirmLayers(ctx context.Context, repo *repository, alg oci.Algorithm) error {
	return r.eachDigest(ctx, layout.Layers(repo.name, alg), alg, ofDir, func(d oci.Digest) error {
		if alg == oci.SHA256 && r.digests.what(d)&confirmed != 0 {
			return nil
		}
		path := layout.LayerLink(repo.name, d)
		if _, err := r.Driver.Stat(ctx, path); absent(err) {
			return nil
		} else if err != nil {
			return err
		}
		return r.keepLayer(ctx, d, path, confirmed)
	})
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
		if err := r.restore(ctx, layout.RevisionLink(repo.name, r.digests.digest(rev.id))); err != nil {
			return err
		}
		r.book(func(p *Report) {
			if p.Manifests.Freed > 0 {
				p.Manifests.Freed--
				p.Manifests.Kept++
			}
		})
	}
	return nil
}
