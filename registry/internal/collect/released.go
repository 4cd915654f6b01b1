package collect

import (
	"context"
	"slices"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/tree"
)

// Push, delete, garbage-collect: the bytes are free in that run, though the links
// are young. What a manifest has used protects nobody any more to whom it was confirmed
// before, so with Options.Release a link is released that is no newer than the
// bytes of a manifest which is deleted and needs it, where the repository links
// all that this manifest needs. Where it was deleted alone, or with its repository's
// other copies, its bytes still lie there without a revision.

// user is a deleted manifest, or one that is going.
type user struct {
	modified time.Time // of its bytes
	needs    []id
}

// users are found by what they need.
type users map[id][]*user

func (u users) add(by *user) {
	for _, need := range by.needs {
		u[need] = append(u[need], by)
	}
}

// maxOrphan is the size up to which bytes without a revision are read, because they
// may be a manifest.
const maxOrphan = 4 << 20

// readOrphans finds young manifests that no repository has any more.
func (r *run) readOrphans(ctx context.Context) (users, error) {
	for name, err := range tree.Everything(ctx, r.Store) {
		if err != nil {
			return nil, err
		}
		for _, alg := range tree.Algorithms() {
			for l, err := range r.links(ctx, layout.Revisions(name, alg), alg) {
				if err != nil {
					return nil, err
				}
				r.digests.mark(r.digests.add(l.digest), isRevision)
			}
		}
	}
	all := users{}
	for b, err := range tree.Blobs(ctx, r.Store, "") {
		if err == nil {
			err = r.step(ctx)
		}
		if err != nil {
			return nil, err
		}
		if b.Size > maxOrphan || !r.young(b.Modified) {
			continue
		}
		at := r.digests.add(b.Digest)
		if r.digests.is(at, isRevision) {
			continue
		}
		refs, err := r.references(ctx, b.Digest)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil || len(refs.needs) == 0 {
			continue
		}
		all.add(&user{b.Modified, refs.needs})
	}
	return all, nil
}

// evidence says whether young bytes that nothing needs let a later run release
// something: a scheduled run leaves that to commands, and one that keeps untagged
// manifests keeps the index that they were of.
func (r *run) evidence(ctx context.Context, l link) bool {
	switch {
	case !r.young(l.Modified):
		return false
	case !r.Release:
		return true
	case r.DeleteUntagged || l.Size > maxOrphan:
		return false
	}
	refs, err := r.references(ctx, l.digest)
	return err == nil && slices.ContainsFunc(refs.needs, func(i id) bool { return r.digests.is(i, isRevision) })
}

// usersGone makes the manifests of the repository that go users of what they
// need.
func (r *run) usersGone(ctx context.Context, repo *repository) error {
	repo.users = users{}
	for i := range repo.revisions {
		rev := &repo.revisions[i]
		if rev.live {
			continue
		}
		info, err := r.Store.Stat(ctx, layout.BlobData(r.digests.digest(rev.id)))
		if absent(err) {
			continue
		}
		if err != nil {
			return err
		}
		refs, _ := r.digests.references(rev.id)
		repo.users.add(&user{info.Modified, refs.needs})
	}
	return nil
}

// released says whether a young link has been used by a manifest that is deleted.
func (r *run) released(ctx context.Context, repo *repository, i id, modified time.Time) (bool, error) {
	if !r.Release {
		return false, nil
	}
	orphans, err := r.orphans()
	if err != nil {
		return false, err
	}
	for _, of := range []users{orphans, repo.users} {
		for _, u := range of[i] {
			if !modified.After(u.modified) && r.linksAll(repo, u.needs) {
				return true, nil
			}
		}
	}
	return false, nil
}

func (r *run) linksAll(repo *repository, needs []id) bool {
	for _, i := range needs {
		if _, ok := repo.find(i); !ok && !repo.linked(i) {
			return false
		}
	}
	return true
}

// releasedRevision says whether a young, untagged manifest was a child of one that
// is deleted, or has lost its tag: to another manifest, then its link is no newer
// than its entry in the history of that tag; or by the deletion of the tag, then its
// link is older than its bytes, which are renewed with that.
func (r *run) releasedRevision(ctx context.Context, repo *repository, rev *revision) (bool, error) {
	released, err := r.released(ctx, repo, rev.id, rev.modified)
	if released || err != nil || !r.Release {
		return released, err
	}
	d := r.digests.digest(rev.id)
	info, err := r.Store.Stat(ctx, layout.BlobData(d))
	if err == nil && info.Modified.After(rev.modified) {
		return true, nil
	}
	if err != nil && !absent(err) {
		return false, err
	}
	for _, t := range repo.tags {
		info, err := r.Store.Stat(ctx, layout.TagIndex(repo.name, t.name, d))
		if err == nil && !rev.modified.After(info.Modified) {
			return true, nil
		}
		if err != nil && !absent(err) {
			return false, err
		}
	}
	return false, nil
}
