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
				r.digests.mark(isRevision, r.digests.add(l.digest))
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
		if r.digests.isRevision(r.digests.add(b.Digest)) {
			continue
		}
		refs, err := r.readReferences(ctx, b.Digest)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil { // else it is no manifest
			all.add(&user{b.Modified, refs.needs})
		}
	}
	return all, nil
}

// evidence says whether young bytes that nothing needs let a later run release
// something: a scheduled run leaves that to commands, and one that keeps untagged
// manifests keeps the index that they were of.
func (r *run) evidence(ctx context.Context, b object) bool {
	switch {
	case !r.young(b.Modified):
		return false
	case !r.Release:
		return true
	case r.DeleteUntagged || b.Size > maxOrphan:
		return false
	}
	refs, err := r.readReferences(ctx, b.digest)
	return err == nil && slices.ContainsFunc(refs.needs, r.digests.isRevision)
}

// usersGone makes the manifests of the repository that go users of what they
// need.
func (r *run) usersGone(ctx context.Context, repo *repository) error {
	repo.users = users{}
	for _, rev := range repo.revisions {
		if rev.live {
			continue
		}
		info, err := r.Store.Stat(ctx, layout.BlobData(r.digests.digest(rev.id)))
		if err != nil && !absent(err) {
			return err
		}
		if err == nil {
			repo.users.add(&user{info.Modified, r.digests.needs(rev.id)})
		}
	}
	return nil
}

// released says whether a young link has been used by a manifest that is deleted. An
// untagged manifest is released, too, if it has lost its tag: by the deletion of the tag,
// which renews the bytes, then its link is older than these; or to another manifest, then
// its link is no newer than its entry in the history of that tag.
func (r *run) released(ctx context.Context, repo *repository, l *link) (bool, error) {
	if !r.Release {
		return false, nil
	}
	orphans, err := r.orphans()
	if err != nil {
		return false, err
	}
	for _, u := range slices.Concat(orphans[l.id], repo.users[l.id]) {
		if !l.modified.After(u.modified) && repo.linksAll(u.needs) {
			return true, nil
		}
	}
	if l.kind != OldManifest {
		return false, nil
	}
	d := r.digests.digest(l.id)
	info, err := r.Store.Stat(ctx, layout.BlobData(d))
	if err == nil && info.Modified.After(l.modified) {
		return true, nil
	}
	if err != nil && !absent(err) {
		return false, err
	}
	for _, t := range repo.tags {
		info, err := r.Store.Stat(ctx, layout.TagIndex(repo.name, t.name, d))
		if err == nil && !l.modified.After(info.Modified) {
			return true, nil
		}
		if err != nil && !absent(err) {
			return false, err
		}
	}
	return false, nil
}

func (repo *repository) linksAll(needs []id) bool {
	for _, i := range needs {
		_, manifest := find(repo.revisions, i)
		_, layer := find(repo.layers, i)
		if !manifest && !layer {
			return false
		}
	}
	return true
}
