package collect

import (
	"context"
	"fmt"
	"strings"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
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
	prefix := layout.Tags(repo.name)
	for info, err := range r.Store.List(ctx, prefix, storage.ListOptions{Names: true}) {
		if err == nil {
			err = r.step(ctx)
		}
		if err != nil {
			return err
		}
		name, err := oci.ParseTag(strings.TrimSuffix(info.Key[len(prefix)+1:], "/"))
		if err != nil || !info.Prefix {
			continue
		}
		d, err := r.link(ctx, layout.TagCurrent(repo.name, name))
		switch {
		case err == nil:
			t := tag{name, r.digests.add(d)}
			repo.tags = append(repo.tags, t)
			if !r.DeleteUntagged {
				continue
			}
			if err := r.readHistory(ctx, repo, t); err != nil {
				return err
			}
		case ctx.Err() != nil:
			return ctx.Err()
		case !absent(err) && r.DeleteUntagged: // else it never had one, or is being deleted
			r.skip(repo, "", fmt.Errorf("tag %s: %w", name, err))
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
