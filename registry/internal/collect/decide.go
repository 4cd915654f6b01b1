package collect

import (
	"context"
	"iter"

	"slipway/registry/internal/storage"
)

// decide says what of a repository stays. What a manifest that goes has used may
// go, too, so it looks until nothing more goes.
func (r *run) decide(ctx context.Context, repo *repository) error {
	reached := make([]bool, len(repo.revisions))
	for _, t := range repo.tags {
		if at, ok := find(repo.revisions, t.at); ok {
			reached[at] = true
		}
	}
	repo.spread(reached)
	for i := range repo.revisions {
		repo.revisions[i].tagged = reached[i]
	}
	for before := 0; ; {
		gone, err := r.decideRevisions(ctx, repo)
		if err != nil {
			return err
		}
		if gone == before || !r.Release || !r.ages() {
			return r.decideLayers(ctx, repo)
		}
		before = gone
		if err := r.usersGone(ctx, repo); err != nil {
			return err
		}
	}
}

// decideRevisions decides on the manifests: all stay, unless untagged ones go. It
// returns how many go.
func (r *run) decideRevisions(ctx context.Context, repo *repository) (gone int, err error) {
	live := make([]bool, len(repo.revisions))
	all := !r.DeleteUntagged || r.KeepUntagged != nil && r.KeepUntagged(repo.name)
	for i := range repo.revisions {
		rev := &repo.revisions[i]
		live[i] = rev.tagged || all || repo.unreadable || repo.unlisted(rev.id)
		if !live[i] {
			if err := r.keepYoung(ctx, repo, rev); err != nil {
				return 0, err
			}
			live[i] = rev.young
		}
	}
	repo.spread(live)
	for i := range repo.revisions {
		repo.revisions[i].live = live[i]
		if !live[i] {
			gone++
		}
	}
	return gone, nil
}

// spread adds what the reached manifests lead to.
func (repo *repository) spread(reached []bool) {
	var todo []int
	for at, is := range reached {
		if is {
			todo = append(todo, at)
		}
	}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, to := range repo.leads[at] {
			if !reached[to] {
				reached[to] = true
				todo = append(todo, to)
			}
		}
	}
}

// kept yields the live manifests and what they need.
func (r *run) kept(repo *repository) iter.Seq2[link, []id] {
	return func(yield func(link, []id) bool) {
		for _, rev := range repo.revisions {
			if rev.live && !yield(rev, r.digests.needs(rev.id)) {
				return
			}
		}
	}
}

// decideLayers decides on the links to blobs: those stay that live manifests need, or are.
func (r *run) decideLayers(ctx context.Context, repo *repository) error {
	needed := map[id]bool{}
	for rev, needs := range r.kept(repo) {
		needed[rev.id] = true
		for _, i := range needs {
			needed[i] = true
		}
	}
	for i := range repo.layers {
		l := &repo.layers[i]
		if l.live = needed[l.id] || repo.unreadable; l.live {
			continue
		}
		if err := r.keepYoung(ctx, repo, l); err != nil {
			return err
		}
		l.live = l.young
	}
	return nil
}

// keepYoung decides whether a link that nothing needs stays because a client may rely on
// it.
func (r *run) keepYoung(ctx context.Context, repo *repository, l *link) (err error) {
	if l.young = false; !r.ages() {
		return nil
	}
	info := storage.Info{Key: r.key(repo, garbage{kind: l.kind, id: l.id}), Modified: l.modified}
	if l.modified, err = r.age(ctx, info, r.digests.digest(l.id)); err != nil || !r.young(l.modified) {
		return err
	}
	released, err := r.released(ctx, repo, l)
	l.young = !released
	return err
}

// mark notes why the bytes stay of what stays in the repository.
func (r *run) mark(repo *repository) {
	for rev, needs := range r.kept(repo) {
		why := byUntagged
		switch {
		case repo.unreadable:
			why = unreadable
		case rev.tagged:
			why = inUse
		case r.DeleteUntagged:
			why = recent
		}
		r.digests.mark(why, rev.id)
		r.digests.mark(why, needs...)
	}
	for _, l := range repo.layers {
		if !l.live {
			continue
		}
		why := r.digests.why(l.id)
		switch {
		case why != 0: // as needed, or by another repository
		case repo.unreadable:
			why = unreadable
		default:
			why = recent
		}
		r.digests.mark(why, l.id, l.target)
	}
}
