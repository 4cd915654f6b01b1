package collect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// tagLink is the link of a tag to a manifest, or an entry of its history.
type tagLink struct {
	link
	tag oci.Tag
}

// readTags reads where the tags point and, if untagged manifests are deleted, their
// histories; then a repository with a tag that cannot be read is skipped.
func (r *run) readTags(ctx context.Context, repo *repository) error {
	prefix := layout.Tags(repo.name)
	g := r.group(ctx)
	for info, err := range r.Store.List(ctx, prefix, storage.ListOptions{Names: true}) {
		if err == nil {
			err = r.pace.step(ctx)
		}
		if err != nil {
			_ = g.Wait()
			return err
		}
		tag, err := oci.ParseTag(strings.TrimSuffix(info.Key[len(prefix)+1:], "/"))
		if err == nil && info.Prefix {
			g.do(func(ctx context.Context) error { return r.readTag(ctx, repo, tag) })
		}
	}
	return g.Wait()
}

// readTag reads where a tag points, and where it pointed.
func (r *run) readTag(ctx context.Context, repo *repository, tag oci.Tag) error {
	var found []tagLink
	read, there := tree.ReadLink(ctx, r.Store, layout.TagCurrent(repo.name, tag), "")
	switch {
	case !there: // it is being pushed or deleted, or its deletion was interrupted
		found = append(found, tagLink{link{info: storage.Info{Key: layout.TagCurrent(repo.name, tag)}}, tag})
	case ctx.Err() != nil:
		return ctx.Err()
	case read.Err == nil:
		found = append(found, tagLink{link{digest: read.Target, info: read.Info}, tag})
	case r.DeleteUntagged:
		r.skip(repo, "", fmt.Errorf("tag %s: %w", tag, read.Err))
	}
	repo.mu.Lock()
	repo.pointers = append(repo.pointers, found...)
	repo.mu.Unlock()
	if !r.DeleteUntagged {
		return nil
	}
	for _, alg := range tree.Algorithms() {
		for o, err := range r.objects(ctx, layout.Tag(repo.name, tag)+"/index/"+string(alg), "/link", alg) {
			if err != nil {
				return err
			}
			repo.mu.Lock()
			repo.history = append(repo.history, tagLink{link{digest: o.digest, info: o.Info}, tag})
			repo.mu.Unlock()
		}
	}
	return nil
}

// decideHistory reduces the history to what the run deletes: entries that lead to nothing which
// the repository keeps, and all keys of a tag whose link or manifest is gone.
func (r *run) decideHistory(ctx context.Context, repo *repository, cutoff func() (time.Time, error)) error {
	if repo.unreadable {
		repo.history = nil
		return nil
	}
	var old []tagLink
	at := map[oci.Tag]oci.Digest{}
	for _, t := range repo.pointers {
		at[t.tag] = t.digest
		if rev := repo.revisions[t.digest]; rev != nil && !rev.deleted {
			continue
		}
		if young, err := r.young(ctx, &t.link, cutoff); young || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		for info, err := range r.Store.List(ctx, layout.Tag(repo.name, t.tag), storage.ListOptions{Flat: true}) {
			if err != nil {
				return err
			}
			l := link{digest: t.digest, info: info}
			if young, err := r.young(ctx, &l, cutoff); err != nil {
				return err
			} else if !young {
				old = append(old, tagLink{link: l, tag: t.tag})
			}
		}
	}
	for _, t := range repo.history {
		if rev := repo.revisions[t.digest]; rev != nil && rev.live || at[t.tag] == t.digest {
			continue
		}
		if young, err := r.young(ctx, &t.link, cutoff); err != nil {
			return err
		} else if !young && !t.info.Modified.IsZero() {
			old = append(old, t)
		}
	}
	slices.SortFunc(old, func(a, b tagLink) int { return strings.Compare(a.info.Key, b.info.Key) })
	repo.history = slices.CompactFunc(old, func(a, b tagLink) bool { return a.info.Key == b.info.Key })
	return nil
}
