package collect

import (
	"context"
	"fmt"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/tree"
)

// tag is a tag and the manifest that it points at.
type tag struct {
	name oci.Tag
	at   id
}

// entry is where a tag once pointed.
type entry struct {
	tag    oci.Tag
	digest oci.Digest
}

// readTags reads where the tags point. A repository with one that cannot be read
// is skipped if untagged manifests are deleted.
func (r *run) readTags(ctx context.Context, repo *repository) error {
	for t, err := range tree.Tags(ctx, r.Store, repo.name) {
		if err == nil {
			err = r.step(ctx)
		}
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case t.Err != nil:
			if r.DeleteUntagged { // else it never had one, or is being deleted
				r.skip(repo, "", fmt.Errorf("tag %s: %w", t.Name, t.Err))
			}
			continue
		}
		known := tag{t.Name, r.digests.add(t.Target)}
		repo.tags = append(repo.tags, known)
		if !r.DeleteUntagged {
			continue
		}
		if err := r.readHistory(ctx, repo, known); err != nil {
			return err
		}
	}
	return nil
}

// readHistory reads where a tag has pointed that points at something else by now.
func (r *run) readHistory(ctx context.Context, repo *repository, t tag) error {
	for _, alg := range tree.Algorithms() {
		for l, err := range r.names(ctx, layout.TagHistory(repo.name, t.name, alg), alg) {
			if err != nil {
				return err
			}
			if i, known := r.digests.find(l.digest); !known || i != t.at {
				repo.history = append(repo.history, entry{t.name, l.digest})
			}
		}
	}
	return nil
}

// keeps says whether the repository keeps a manifest.
func (repo *repository) keeps(i id) bool {
	at, ok := repo.find(i)
	return ok && repo.revisions[at].live
}
