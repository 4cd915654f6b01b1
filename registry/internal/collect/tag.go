package collect

import (
	"context"
	"fmt"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// tag is a tag and the manifest that it points at.
type tag struct {
	name oci.Tag
	at   id
}

// tags reads where the tags point. One that cannot be read makes the repository
// one that is left alone.
func (r *run) tags(ctx context.Context, repo *repository) ([]tag, error) {
	var tags []tag
	for e, err := range r.Driver.List(ctx, layout.Tags(repo.name), "") {
		if absent(err) {
			return tags, nil
		}
		if err == nil {
			err = r.pace.step(ctx)
		}
		if err != nil {
			return nil, err
		}
		name, err := oci.ParseTag(e.Name)
		if err != nil || !e.Dir {
			continue
		}
		d, err := r.link(ctx, layout.TagCurrent(repo.name, name))
		switch {
		case err == nil:
			tags = append(tags, tag{name, r.digests.add(d)})
		case !absent(err): // else it never had one, or is being deleted
			r.trouble(repo, "", fmt.Errorf("tag %s: %w", name, err))
		}
	}
	return tags, nil
}

// reachTagged marks as live what the tags point at; in a repository that is left
// alone, all.
func (repo *repository) reachTagged(tags []tag) {
	for _, t := range tags {
		if at, ok := repo.find(t.at); ok {
			repo.revisions[at].live = true
		}
	}
	for i := range repo.revisions {
		repo.revisions[i].live = repo.revisions[i].live || repo.troubled
	}
}

// tidyTags removes from the histories of the tags what the repository has not
// any more.
func (r *run) tidyTags(ctx context.Context, repo *repository, tags []tag) error {
	if repo.troubled || r.DryRun {
		return nil
	}
	for _, t := range tags {
		for _, alg := range algorithms {
			if err := r.tidyTag(ctx, repo, t, alg); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) tidyTag(ctx context.Context, repo *repository, t tag, alg oci.Algorithm) error {
	dir := layout.TagHistory(repo.name, t.name, alg)
	return r.eachDigest(ctx, dir, alg, ofDir, func(d oci.Digest) error {
		if i, known := r.digests.find(d); known && (i == t.at || repo.has(i)) {
			return nil
		}
		r.book(func(p *Report) { p.TagEntries++ })
		return r.Driver.Discard(ctx, dir+"/"+d.Hex())
	})
}

// has says whether the repository has a live manifest.
func (repo *repository) has(i id) bool {
	at, ok := repo.find(i)
	return ok && repo.revisions[at].live
}
