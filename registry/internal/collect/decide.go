package collect

import (
	"context"
	"errors"
	"iter"
	"slices"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/tree"
)

// decide says what of a repository stays. What a manifest that goes has used may
// go, too, so it looks until nothing more goes.
func (r *run) decide(ctx context.Context, repo *repository) error {
	reached := make([]bool, len(repo.revisions))
	for _, t := range repo.tags {
		if at, ok := repo.find(t.at); ok {
			reached[at] = true
		}
	}
	r.spread(repo, reached)
	for i := range repo.revisions {
		repo.revisions[i].tagged = reached[i]
	}
	for gone := -1; ; {
		n, err := r.decideRevisions(ctx, repo)
		if err != nil {
			return err
		}
		if n == gone || n == 0 || !r.Release || !r.ages() {
			break
		}
		gone = n
		if err := r.usersGone(ctx, repo); err != nil {
			return err
		}
	}
	r.need(repo)
	return r.decideLayers(ctx, repo)
}

// decideRevisions decides on the manifests: all stay, unless untagged ones go. It
// returns how many go.
func (r *run) decideRevisions(ctx context.Context, repo *repository) (gone int, err error) {
	live := make([]bool, len(repo.revisions))
	all := !r.DeleteUntagged || r.KeepUntagged != nil && r.KeepUntagged(repo.name)
	for i := range repo.revisions {
		rev := &repo.revisions[i]
		live[i] = rev.tagged || all || repo.unreadable || repo.unlisted(r.digests.digest(rev.id))
		if !live[i] && r.young(rev.modified) {
			released, err := r.releasedRevision(ctx, repo, rev)
			if err != nil {
				return 0, err
			}
			rev.young, live[i] = !released, !released
		}
	}
	r.spread(repo, live)
	for i := range repo.revisions {
		repo.revisions[i].live = live[i]
		if !live[i] {
			gone++
		}
	}
	return gone, nil
}

// spread adds what the reached manifests lead to: what they need, their subjects,
// and the manifests whose subject they are.
func (r *run) spread(repo *repository, reached []bool) {
	var todo []int
	for i, is := range reached {
		if is {
			todo = append(todo, i)
		}
	}
	reach := func(i int) {
		if !reached[i] {
			reached[i] = true
			todo = append(todo, i)
		}
	}
	for len(todo) > 0 {
		i := repo.revisions[todo[len(todo)-1]].id
		todo = todo[:len(todo)-1]
		for _, referrer := range repo.referrers[i] {
			reach(referrer)
		}
		refs, _ := r.digests.references(i)
		for _, ref := range refs.needs {
			if at, ok := repo.find(ref); ok {
				reach(at)
			}
		}
		if at, ok := repo.find(refs.subject); ok && refs.hasSubject {
			reach(at)
		}
	}
}

// kept yields the live manifests and what they need.
func (r *run) kept(repo *repository) iter.Seq2[*revision, references] {
	return func(yield func(*revision, references) bool) {
		for i := range repo.revisions {
			rev := &repo.revisions[i]
			if !rev.live {
				continue
			}
			if refs, _ := r.digests.references(rev.id); !yield(rev, refs) {
				return
			}
		}
	}
}

// need collects what the live manifests are and need.
func (r *run) need(repo *repository) {
	repo.needs = repo.needs[:0]
	for rev, refs := range r.kept(repo) {
		repo.needs = append(append(repo.needs, rev.id), refs.needs...)
	}
	slices.Sort(repo.needs)
	repo.needs = slices.Compact(repo.needs)
}

// decideLayers decides on the links to blobs.
func (r *run) decideLayers(ctx context.Context, repo *repository) error {
	for i := range repo.layers {
		l := &repo.layers[i]
		l.live = repo.needsBlob(l.id) || repo.unreadable
		if l.live || !r.ages() {
			continue
		}
		d := r.digests.digest(l.id)
		modified, err := r.age(ctx, storage.Info{Key: layout.LayerLink(repo.name, d), Modified: l.modified}, d)
		if err != nil {
			return err
		}
		if r.young(modified) {
			released, err := r.released(ctx, repo, l.id, modified)
			if err != nil {
				return err
			}
			l.young, l.live = !released, !released
		}
	}
	return nil
}

// mark notes why the bytes stay of what stays in the repository.
func (r *run) mark(ctx context.Context, repo *repository) error {
	for rev, refs := range r.kept(repo) {
		why := byUntagged
		switch {
		case repo.unreadable:
			why = unreadable
		case rev.tagged:
			why = inUse
		case r.DeleteUntagged:
			why = recent
		}
		r.digests.mark(rev.id, why)
		for _, ref := range refs.needs {
			r.digests.mark(ref, why)
		}
	}
	for i := range repo.layers {
		l := &repo.layers[i]
		why := uint8(0)
		switch {
		case l.young:
			why = recent
		case repo.unreadable:
			why = unreadable
		case !l.live || !l.other: // needed, so it is marked above
			continue
		}
		if err := r.markLayer(ctx, repo, l, why); err != nil {
			return err
		}
	}
	return nil
}

// markLayer marks the blob to which a link leads. That of sha256 is the one of its
// name; distribution makes links of other algorithms that lead elsewhere.
func (r *run) markLayer(ctx context.Context, repo *repository, l *layer, why uint8) error {
	if known := r.digests.what(l.id); known != 0 {
		why = known
	}
	r.digests.mark(l.id, why)
	if !l.other {
		return nil
	}
	d := r.digests.digest(l.id)
	link, there := tree.ReadLink(ctx, r.Store, layout.LayerLink(repo.name, d), d)
	switch {
	case !there || errors.Is(link.Err, layout.ErrBadLink) || errors.Is(link.Err, layout.ErrEmptyLink):
		return nil
	case link.Err != nil:
		return link.Err
	}
	r.digests.mark(r.digests.add(link.Target), why)
	return nil
}
