package collect

import (
	"context"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// readDeletions reads what was deleted from a repository and can be restored, unless it was read before, and removes the
// records that have expired. It must run after tags and manifests were read: one that was missing
// then is in a record by now.
func (r *run) readDeletions(ctx context.Context, repo *repository) error {
	now := time.Now()
	cutoff := r.cutoffOf(ctx, repo.name)
	g := r.group(ctx)
	for d, err := range tree.Deletions(ctx, r.Store, repo.name) {
		if err == nil {
			err = r.pace.step(ctx)
		}
		if err != nil {
			_ = g.Wait()
			return err
		}
		if repo.deletions[d.Key] {
			continue
		}
		repo.deletions[d.Key] = true
		g.do(func(ctx context.Context) error {
			var deleted layout.Deletion
			var err error
			stays := now.Before(d.Until)
			if stays {
				deleted, err = d.Read(ctx, r.Store)
			}
			if stays && err == nil && r.PurgeDeleted {
				stays, err = r.staysRecent(ctx, repo, &deleted, cutoff)
			}
			switch {
			case err != nil:
				return err
			case stays:
				return r.keepRestorable(ctx, repo, &deleted)
			case r.DryRun:
				return nil
			default:
				return r.Store.Apply(ctx, nil, storage.Stage{{Key: d.Key, Delete: true}})
			}
		})
	}
	return g.Wait()
}

// keepDeleted keeps what manifests need that were in place when they were read, and are gone since: a client may have deleted one
// of them, and can restore it. The record was written before.
func (r *run) keepDeleted(ctx context.Context, repo *repository) error {
	if r.DryRun {
		return nil
	}
	repo.restorable = nil
	if err := r.readDeletions(ctx, repo); err != nil {
		return err
	}
	repo.graph = nil
	repo.spread(func(rev *revision) *bool { return &rev.restorable }, repo.restorable)
	r.keepRevisions(repo, repo.restorable)
	return nil
}

// staysRecent reports whether anything of a deletion is within the grace period. Its bytes stay, so nothing would be gained by giving up
// the deletion, which can be undone until a later run.
func (r *run) staysRecent(ctx context.Context, repo *repository, deleted *layout.Deletion, cutoff func() (time.Time, error)) (bool, error) {
	for _, m := range deleted.Digests() {
		keys := []string{layout.RevisionLink(repo.name, m)}
		rev := &revision{link: link{digest: m, target: m}}
		if err := r.readManifest(ctx, rev); err != nil && !lost(err) {
			return true, ctx.Err() // what it needs isn't known
		}
		for _, need := range rev.needs {
			keys = append(keys, layout.LayerLink(repo.name, need), layout.RevisionLink(repo.name, need))
		}
		for _, key := range keys {
			if young, err := r.young(ctx, &link{info: storage.Info{Key: key}}, cutoff); young || err != nil {
				return young, err
			}
		}
	}
	return false, nil
}

// keepRestorable keeps what a deletion names. A manifest whose link is gone stays with what it needs as if it
// had one, unless it can't be restored because its bytes are gone.
func (r *run) keepRestorable(ctx context.Context, repo *repository, deleted *layout.Deletion) error {
	for _, target := range deleted.Tags {
		repo.keep(target)
	}
	for _, m := range deleted.Manifests {
		if repo.keep(m) {
			continue
		}
		rev := &revision{link: link{digest: m, target: m}, deleted: true}
		switch err := r.readManifest(ctx, rev); {
		case ctx.Err() != nil:
			return ctx.Err()
		case lost(err):
			continue
		case err != nil:
			r.skip(repo, m, err)
		}
		repo.mu.Lock()
		if repo.revisions[m] == nil {
			repo.revisions[m] = rev
		}
		repo.mu.Unlock()
		repo.keep(m)
	}
	return nil
}

// keep notes that a manifest can be restored, if the repository has it.
func (repo *repository) keep(d oci.Digest) (has bool) {
	repo.mu.Lock()
	defer repo.mu.Unlock()
	rev := repo.revisions[d]
	if rev != nil {
		repo.restorable = append(repo.restorable, rev)
	}
	return rev != nil
}

// collectDeleted collects the repositories of which there is nothing but records of deletions.
func (r *run) collectDeleted(ctx context.Context) error {
	g := r.group(ctx)
	for name, err := range tree.Deleted(ctx, r.Store) {
		if err == nil {
			err = r.pace.step(ctx)
		}
		if err != nil {
			_ = g.Wait()
			return err
		}
		if !r.visited[name] {
			g.do(func(ctx context.Context) error { return r.collectRepository(ctx, name) })
		}
	}
	return g.Wait()
}
