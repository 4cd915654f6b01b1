package registry

import (
	"context"
	"errors"
	"slices"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// eraseTags removes the tags of a manifest that is gone. While this process alone
// serves the storage, those are all there are, and nobody moves them: the lock of
// the repository is held.
func (r Repository) eraseTags(ctx context.Context, e *erasure, tags []oci.Tag, crew string, sole bool) error {
	if now, still := r.soleCrew(ctx); !sole || !still || now != crew {
		err := r.eraseBeside(ctx, e)
		if !errors.Is(err, driver.ErrNoSpace) {
			return err
		}
		// A full storage takes hardly any pushes that one would have to beware of,
		// and none now of this process.
		if tags, err = r.unchanged(ctx, e, tags); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(tags, tagsAtOnce) {
		if err := r.reg.commit(ctx, r.tagRemovals(some)...); err != nil {
			return err
		}
	}
	return nil
}

// unchanged is those of the tags whose links are the ones that were noted.
func (r Repository) unchanged(ctx context.Context, e *erasure, tags []oci.Tag) ([]oci.Tag, error) {
	now := erasure{Digest: e.Digest, Tags: map[oci.Tag]int64{}}
	err := r.noteTags(ctx, &now, tags)
	same := func(tag oci.Tag) bool {
		at, there := now.Tags[tag]
		return there && at == e.Tags[tag]
	}
	return slices.DeleteFunc(slices.Clone(tags), func(tag oci.Tag) bool { return !same(tag) }), err
}

// tagsAtOnce is how many tags go in one commit: others wait for it.
const tagsAtOnce = 128

// eraseBeside is eraseTags where others push as well. A tag that was set anew
// since it was noted stays; and one that was set by somebody who wrote the
// manifest's link before it was removed, and the tag after, goes with the
// manifest. Once those are waited for, all tags are there to be seen; who came
// later wrote a link that is still in its place.
func (r Repository) eraseBeside(ctx context.Context, e *erasure) error {
	if err := r.takeTags(ctx, e); err != nil {
		return err
	}
	if err := r.barrier(ctx); err != nil {
		return err
	}
	t, err := r.readTargets(ctx)
	if err != nil {
		return err
	}
	late := erasure{Digest: e.Digest, Tags: map[oci.Tag]int64{}}
	if err := r.noteTags(ctx, &late, t.tags[e.Digest]); err != nil {
		return err
	}
	if len(late.Tags) == 0 {
		return nil
	}
	if _, err := r.reg.find(ctx, layout.RevisionLink(r.name, e.Digest), toRead); !absent(err) {
		return err
	}
	return r.takeTags(ctx, &late)
}

// barrier waits for those who push, and lets go of the repository's lock meanwhile:
// one of them may be stopped. Who pushes through this process then is as one who
// pushes through another.
func (r Repository) barrier(ctx context.Context) error {
	mu := r.lock()
	mu.Unlock()
	defer mu.Lock()
	return r.reg.driver.Barrier(ctx)
}

// takeTags removes the tags whose links are those that were noted.
func (r Repository) takeTags(ctx context.Context, e *erasure) error {
	if len(e.Tags) == 0 {
		return nil
	}
	for tag, changed := range e.Tags {
		if err := r.dropTag(ctx, tag, e.Digest, time.Unix(0, changed)); err != nil {
			return err
		}
	}
	if err := r.FinishExpiry(ctx); err != nil {
		return err
	}
	return r.reg.driver.Flush(ctx, layout.Tags(r.name))
}

// dropTag is takeTag of a tag that points at nothing: its link goes also where
// somebody who died had it in his hands, so that it is not put back later.
func (r Repository) dropTag(ctx context.Context, tag oci.Tag, d oci.Digest, since time.Time) error {
	current, aside := layout.TagCurrent(r.name, tag), layout.ExpiringTag(r.name, tag)
	for range turns {
		if _, err := r.takeTag(ctx, tag, d, since); err != nil {
			return err
		}
		if left, err := r.reg.isLink(ctx, aside, d, since); err != nil {
			return err
		} else if left {
			if err := r.forgetTag(ctx, tag, d, aside); err != nil {
				return err
			}
		}
		if again, err := r.reg.isLink(ctx, current, d, since); err != nil || !again {
			return err
		}
	}
	return restless(current)
}

// tagRemovals takes away tags with their histories, and before them older links of
// them that somebody who died had in his hands: those would be put back later, or in
// this moment.
func (r Repository) tagRemovals(tags []oci.Tag) []driver.Stage {
	held, all := make(driver.Stage, len(tags)), make(driver.Stage, len(tags))
	for i, tag := range tags {
		held[i] = driver.Change{Path: layout.ExpiringTag(r.name, tag), Remove: true}
		all[i] = driver.Change{Path: layout.Tag(r.name, tag), Remove: true}
	}
	return []driver.Stage{held, all}
}
