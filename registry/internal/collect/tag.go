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

// tag is a tag and a manifest that it points at, or in its history once pointed at.
type tag struct {
	name oci.Tag
	at   id
}

// readTags reads where the tags point and, if untagged manifests are deleted, their
// histories; then a repository with a tag that cannot be read is skipped.
func (r *run) readTags(ctx context.Context, repo *repository) error {
	prefix := layout.Tags(repo.name)
	flat := r.DeleteUntagged && r.Remote // see objects
	g := r.group(ctx)
	g.here(func(ctx context.Context) error {
		for info, err := range r.Store.List(ctx, prefix, storage.ListOptions{Flat: flat, Names: true}) {
			if err == nil {
				err = r.step(ctx)
			}
			if err != nil {
				return err
			}
			first, rest, below := strings.Cut(info.Key[len(prefix)+1:], "/")
			name, err := oci.ParseTag(first)
			if err != nil || !below {
				continue
			}
			if d, ok := layout.ParseTagIndex(rest); ok {
				repo.pointed(name, r.digests.add(d))
			} else if !flat || rest == layout.TagCurrentName {
				g.do(func(ctx context.Context) error { return r.readTag(ctx, repo, name, !flat && r.DeleteUntagged) })
			}
		}
		return nil
	})
	return g.Wait()
}

// readTag reads where a tag points, and where it pointed.
func (r *run) readTag(ctx context.Context, repo *repository, name oci.Tag, history bool) error {
	link, there := tree.ReadLink(ctx, r.Store, layout.TagCurrent(repo.name, name), "")
	switch {
	case !there: // it never had one, or is being deleted
	case ctx.Err() != nil:
		return ctx.Err()
	case link.Err == nil:
		at := r.digests.add(link.Target)
		repo.mu.Lock()
		repo.tags = append(repo.tags, tag{name, at})
		repo.mu.Unlock()
	case r.DeleteUntagged:
		r.skip(repo, "", fmt.Errorf("tag %s: %w", name, link.Err))
	}
	if !history {
		return nil
	}
	for _, alg := range tree.Algorithms() {
		for o, err := range r.names(ctx, layout.Tag(repo.name, name)+"/index/"+string(alg), alg) {
			if err != nil {
				return err
			}
			repo.pointed(name, r.digests.add(o.digest))
		}
	}
	return nil
}

// pointed notes that a tag once pointed at a manifest.
func (repo *repository) pointed(name oci.Tag, at id) {
	repo.mu.Lock()
	defer repo.mu.Unlock()
	repo.history = append(repo.history, tag{name, at})
}

// outdated returns the history that leads to nothing which the repository keeps.
func (repo *repository) outdated() (old []tag) {
	current := map[tag]bool{}
	for _, t := range repo.tags {
		current[t] = true
	}
	for _, h := range repo.history {
		at, ok := find(repo.revisions, h.at)
		if kept := ok && repo.revisions[at].live; !kept && !current[h] && !repo.unreadable {
			old = append(old, h)
		}
	}
	return old
}
