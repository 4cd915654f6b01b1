package registry

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"path"

	"go.uber.org/zap"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// A manifest is deleted at once, when its link goes: nothing answers for it any
// more, by digest or tag. Its tags follow. So that they do, whatever comes in
// between, a note of them is written before; who finds one that was left
// finishes the work (FinishDeletions).

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

// settle says how a deletion ended that failed: it did not happen as long as the
// manifest is there, or may come back after a power loss. Who finishes deletions
// then goes by what is there.
func (r Repository) settle(ctx context.Context, d oci.Digest, note string, failed error) error {
	_, err := r.reg.find(ctx, layout.RevisionLink(r.name, d), toRead)
	switch {
	case err == nil && note != "":
		return errors.Join(failed, r.reg.driver.Discard(ctx, note))
	case !absent(err):
		return failed
	}
	if err := r.flushRemoval(ctx, d); err != nil {
		return errors.Join(failed, err)
	}
	r.releasePromises(ctx, d, maxDepth)
	r.reg.log.Warn("a manifest is deleted, but its tags are not yet: they answer that it is gone, and are removed later",
		zap.String("repository", string(r.name)), zap.String("digest", string(d)), zap.Error(failed))
	return nil
}

// flushRemoval makes durable that the link of a manifest is gone.
func (r Repository) flushRemoval(ctx context.Context, d oci.Digest) error {
	return r.reg.driver.Flush(ctx, layout.Revisions(r.name, d.Algorithm()), path.Dir(layout.RevisionLink(r.name, d)))
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
			err = r.flushRemoval(ctx, e.Digest)
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
