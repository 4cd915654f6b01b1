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
			repo.tags = append(repo.tags, tag{name, r.digests.add(d)})
		case ctx.Err() != nil:
			return ctx.Err()
		case !absent(err) && r.DeleteUntagged: // else it never had one, or is being deleted
			r.skip(repo, "", fmt.Errorf("tag %s: %w", name, err))
		}
	}
	return nil
}

// tidyTags removes from the histories of the tags what the repository no longer
// has.
func (r *run) tidyTags(ctx context.Context, repo *repository) error {
	if repo.unreadable || r.DryRun || !r.DeleteUntagged {
		return nil
	}
	var old storage.Stage
	for _, t := range repo.tags {
		for _, alg := range tree.Algorithms() {
			for l, err := range r.names(ctx, layout.TagHistory(repo.name, t.name, alg), alg) {
				if err != nil {
					return err
				}
				if i, known := r.digests.find(l.digest); !known || i != t.at && !repo.keeps(i) {
					old = append(old, storage.Change{Key: layout.TagIndex(repo.name, t.name, l.digest), Delete: true, Ephemeral: true})
				}
			}
		}
	}
	if len(old) == 0 {
		return nil
	}
	r.count(func(p *Report) { p.TagEntries += int64(len(old)) })
	return r.Store.Apply(ctx, nil, old)
}

// keeps says whether the repository keeps a manifest.
func (repo *repository) keeps(i id) bool {
	at, ok := repo.find(i)
	return ok && repo.revisions[at].live
}
