package collect

import (
	"context"
	"sync"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// decide decides what of a repository stays.
func (r *run) decide(ctx context.Context, repo *repository) error {
	repo.spread(func(rev *revision) *bool { return &rev.tagged }, repo.taggedRevisions())
	repo.spread(func(rev *revision) *bool { return &rev.restorable }, repo.restorable)
	cutoff := r.cutoffOf(ctx, repo.name)
	all := !r.DeleteUntagged || repo.unreadable || r.KeepUntagged != nil && r.KeepUntagged(repo.name)
	var live []*revision
	for _, rev := range repo.revisions {
		stays, err := rev.tagged || rev.restorable || all, error(nil)
		if !stays {
			if stays, err = r.young(ctx, &rev.link, cutoff); err != nil {
				return err
			}
		}
		if stays {
			live = append(live, rev)
		}
	}
	repo.spread(func(rev *revision) *bool { return &rev.live }, live)
	needed := repo.needed()
	for _, l := range repo.layers {
		l.live = needed[l.digest] || repo.unreadable
		if l.live {
			continue
		}
		var err error
		if l.live, err = r.young(ctx, l, cutoff); err != nil {
			return err
		}
	}
	return r.decideHistory(ctx, repo, cutoff)
}

// taggedRevisions are the manifests to which tags point.
func (repo *repository) taggedRevisions() (all []*revision) {
	for _, t := range repo.pointers {
		if rev := repo.revisions[t.digest]; rev != nil && !rev.deleted {
			all = append(all, rev)
		}
	}
	return all
}

// spread sets a flag of the manifests, of those that they need or refer to as their
// subject, and of those that refer to them.
func (repo *repository) spread(flag func(*revision) *bool, from []*revision) {
	if repo.graph == nil {
		repo.graph = tree.NewGraph()
		for d, rev := range repo.revisions {
			repo.graph.Add(d, &tree.Node{Needs: rev.needs, Subject: rev.subject})
		}
	}
	roots := make([]oci.Digest, len(from))
	for i, rev := range from {
		roots[i] = rev.digest
	}
	for d := range repo.graph.Component(roots) {
		if rev := repo.revisions[d]; rev != nil {
			*flag(rev) = true
		}
	}
}

// needed are the digests that the live manifests are and need.
func (repo *repository) needed() map[oci.Digest]bool {
	needed := map[oci.Digest]bool{}
	for _, rev := range repo.revisions {
		if !rev.live {
			continue
		}
		needed[rev.digest] = true
		for _, d := range rev.needs {
			needed[d] = true
		}
	}
	return needed
}

// cutoffOf returns the cutoff of a repository's links. It looks for uploads when it is first called.
// An object store lists and dates only the beginning of one, and nothing of a POST with the whole blob;
// files also those that got bytes within Age.
func (r *run) cutoffOf(ctx context.Context, name oci.Name) func() (time.Time, error) {
	return sync.OnceValues(func() (time.Time, error) {
		if r.IdleAge <= 0 || r.IdleAge >= r.Age {
			return r.cutoff(r.Age), nil
		}
		long := r.cutoff(r.Age)
		for info, err := range r.Store.List(ctx, layout.Uploads(name), storage.ListOptions{Flat: true}) {
			if err != nil || !info.Modified.Before(long) {
				return long, err
			}
		}
		return r.cutoff(r.IdleAge), nil
	})
}

// young reports whether a client may rely on a link that nothing needs. A link that doesn't exist
// gets no date.
func (r *run) young(ctx context.Context, l *link, cutoff func() (time.Time, error)) (bool, error) {
	if l.info.Modified.IsZero() {
		info, err := r.Store.Stat(ctx, l.info.Key)
		if err != nil {
			if absent(err) {
				err = nil
			}
			return false, err
		}
		l.info = info
	}
	limit, err := cutoff()
	return !l.info.Modified.Before(limit), err
}
