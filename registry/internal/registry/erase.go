package registry

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// A manifest is deleted at once, when its link goes: nothing answers for it any
// more, by digest or tag. Its tags follow. So that they do, whatever comes in
// between, a note of them is written before; who finds one that was left
// finishes the work (FinishDeletions).

// erasure is such a note. Links are named with the time of their last change:
// what was pushed since is somebody else's.
type erasure struct {
	Repository oci.Name          `json:"repository"`
	Digest     oci.Digest        `json:"digest"`
	Changed    time.Time         `json:"changed"` // the manifest's link
	Tags       map[oci.Tag]int64 `json:"tags"`    // nanoseconds of their links
}

// maxErasure bounds a note: some hundred thousand tags.
const maxErasure = 32 << 20

// DeleteManifest removes a manifest and the tags that point at it: all, or
// nothing if there is an error before the manifest is gone. DENIED with
// ErrImmutable inside if an immutable tag points at it.
func (r Repository) DeleteManifest(ctx context.Context, d oci.Digest) (removed []oci.Tag, err error) {
	if err := r.reg.deletable(); err != nil {
		return nil, err
	}
	mu := r.lock()
	mu.Lock()
	defer mu.Unlock()
	if err := r.revision(ctx, d, toRead); err != nil {
		return nil, err
	}
	crew, sole := r.soleCrew(ctx)
	removed, err = r.tagsOf(ctx, d, crew, sole)
	if err == nil {
		err = r.refuseRemoval(removed...)
	}
	if err != nil {
		return nil, err
	}
	if err := r.erase(ctx, d, removed, crew, sole); err != nil {
		return nil, fault(err)
	}
	return removed, nil
}

// erase removes a manifest and then its tags.
func (r Repository) erase(ctx context.Context, d oci.Digest, tags []oci.Tag, crew string, sole bool) error {
	e, err := r.noteErasure(ctx, d, tags)
	if err != nil {
		return err
	}
	stages, note := []driver.Stage{{{Path: layout.RevisionLink(r.name, d), Remove: true}}}, ""
	if len(tags) > 0 {
		content, err := json.Marshal(e)
		if err != nil {
			return err
		}
		note = layout.Deleting + "/" + rand.Text()
		stages = []driver.Stage{{{Path: note, Content: content}}, stages[0]}
	}
	failed := r.reg.commit(ctx, stages...)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	if failed == nil {
		failed = r.eraseTags(ctx, e, tags, crew, sole)
	}
	if failed != nil {
		return r.settle(ctx, d, note, failed)
	}
	if err := r.forgetRevision(ctx, e); err != nil {
		return err
	}
	if note == "" {
		return nil
	}
	return r.reg.driver.Discard(ctx, note)
}

// eraseTags removes the tags of a manifest that is gone. While this process alone
// serves the storage, those are all there are, and nobody moves them: the lock of
// the repository is held.
func (r Repository) eraseTags(ctx context.Context, e *erasure, tags []oci.Tag, crew string, sole bool) error {
	if now, still := r.soleCrew(ctx); !sole || !still || now != crew {
		if err := r.eraseBeside(ctx, e); !errors.Is(err, driver.ErrNoSpace) {
			return err
		}
		// A full storage takes no pushes that one would have to beware of.
	}
	if len(tags) == 0 {
		return nil
	}
	return r.reg.commit(ctx, r.tagRemovals(tags))
}

// eraseBeside is eraseTags where others push as well. A tag that was set anew
// since it was noted stays; and one that was set by somebody who wrote the
// manifest's link before it was removed, and the tag after, goes with the
// manifest. Once those are waited for, all tags are there to be seen; who came
// later wrote a link that is still in its place.
func (r Repository) eraseBeside(ctx context.Context, e *erasure) error {
	if err := r.takeTags(ctx, e); err != nil {
		return err
	}
	if err := r.reg.driver.Barrier(ctx); err != nil {
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

// takeTags removes the tags whose links are those that were noted.
func (r Repository) takeTags(ctx context.Context, e *erasure) error {
	if len(e.Tags) == 0 {
		return nil
	}
	for tag, changed := range e.Tags {
		if _, err := r.takeTag(ctx, tag, e.Digest, time.Unix(0, changed)); err != nil {
			return err
		}
	}
	if err := r.FinishExpiry(ctx); err != nil {
		return err
	}
	return r.reg.driver.Flush(ctx, layout.Tags(r.name))
}

// settle says how a deletion ended that failed: it did not happen as long as the
// manifest is there.
func (r Repository) settle(ctx context.Context, d oci.Digest, note string, failed error) error {
	_, err := r.reg.find(ctx, layout.RevisionLink(r.name, d), toRead)
	if !absent(err) {
		if note != "" {
			failed = errors.Join(failed, r.reg.driver.Discard(ctx, note))
		}
		return failed
	}
	r.releasePromises(ctx, d, maxDepth)
	r.reg.log.Warn("a manifest is deleted, but its tags are not yet: they answer that it is gone, and are removed later",
		zap.String("repository", string(r.name)), zap.String("digest", string(d)), zap.Error(failed))
	return nil
}

// noteErasure is the note of a deletion.
func (r Repository) noteErasure(ctx context.Context, d oci.Digest, tags []oci.Tag) (*erasure, error) {
	info, err := r.reg.find(ctx, layout.RevisionLink(r.name, d), toRead)
	if err != nil {
		return nil, err
	}
	e := &erasure{Repository: r.name, Digest: d, Changed: info.Changed, Tags: map[oci.Tag]int64{}}
	return e, r.noteTags(ctx, e, tags)
}

// noteTags notes those of the tags that point at the manifest.
func (r Repository) noteTags(ctx context.Context, e *erasure, tags []oci.Tag) error {
	for _, tag := range tags {
		path := layout.TagCurrent(r.name, tag)
		info, err := r.reg.driver.Stat(ctx, path)
		if err == nil && r.reg.isLink(ctx, path, e.Digest, info.Changed) {
			e.Tags[tag] = info.Changed.UnixNano()
		} else if err != nil && !absent(err) {
			return err
		}
	}
	return nil
}

func (r Repository) tagRemovals(tags []oci.Tag) driver.Stage {
	stage := make(driver.Stage, len(tags))
	for i, tag := range tags {
		stage[i] = driver.Change{Path: layout.Tag(r.name, tag), Remove: true}
	}
	return stage
}

// forgetRevision removes the link of a manifest that a collector of garbage had
// set aside or put back just now, and gives up what only that manifest needed. A
// link that was written since stays.
func (r Repository) forgetRevision(ctx context.Context, e *erasure) error {
	if err := r.forgetLink(ctx, e); err != nil {
		return err
	}
	r.releasePromises(ctx, e.Digest, maxDepth)
	return nil
}

func (r Repository) forgetLink(ctx context.Context, e *erasure) error {
	path := layout.RevisionLink(r.name, e.Digest)
	aside := layout.Aside(path)
	for range turns {
		taken, err := r.reg.takeLink(ctx, path, aside, e.Digest, e.Changed)
		if err == nil && taken {
			err = r.reg.driver.Flush(ctx, layout.Revisions(r.name, e.Digest.Algorithm()))
		}
		if err != nil || !taken && !r.reg.isLink(ctx, aside, e.Digest, e.Changed) {
			return err
		}
		if err := r.reg.driver.Remove(ctx, aside); err != nil && !absent(err) {
			return err
		}
	}
	return restless(path)
}

// FinishDeletions finishes the deletions of manifests that a process had begun
// when it died, or that the storage kept from being finished.
func (r *Registry) FinishDeletions(ctx context.Context) error {
	if r.readOnly {
		return nil
	}
	for e, err := range r.driver.List(ctx, layout.Deleting, "") {
		if absent(err) {
			return nil
		}
		if err != nil {
			return fault(err)
		}
		if err := r.finishDeletion(ctx, layout.Deleting+"/"+e.Name); err != nil {
			return fault(err)
		}
	}
	return nil
}

func (r *Registry) finishDeletion(ctx context.Context, note string) error {
	content, err := r.driver.ReadFile(ctx, note, maxErasure)
	if absent(err) {
		return nil // somebody else has finished it
	}
	if err != nil {
		return err
	}
	var e erasure
	if json.Unmarshal(content, &e) == nil && validErasure(&e) {
		if err := r.Repository(e.Repository).finish(ctx, &e); err != nil {
			return err
		}
	}
	return r.driver.Discard(ctx, note)
}

func validErasure(e *erasure) bool {
	if _, err := oci.ParseName(string(e.Repository)); err != nil {
		return false
	}
	for tag := range e.Tags {
		if _, err := oci.ParseTag(string(tag)); err != nil {
			return false
		}
	}
	_, err := oci.ParseDigest(string(e.Digest))
	return err == nil
}

// finish finishes a deletion, unless the manifest was pushed or promised anew.
func (r Repository) finish(ctx context.Context, e *erasure) error {
	mu := r.lock()
	mu.Lock()
	defer mu.Unlock()
	info, err := r.reg.find(ctx, layout.RevisionLink(r.name, e.Digest), toRead)
	switch {
	case err == nil && !info.Changed.Equal(e.Changed):
		return nil
	case err == nil:
		err = r.forgetRevision(ctx, e)
	}
	if err != nil && !absent(err) {
		return err
	}
	return r.takeTags(ctx, e)
}
