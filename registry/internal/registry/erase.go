package registry

import (
	"context"
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
// finishes the work (Recover).
//
// A collector of garbage may have the link aside. Then it goes from there, in
// the same moment.

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

// erase removes a manifest and then its tags. What fails before the manifest is
// gone has deleted nothing; what fails after it is finished by others.
func (r Repository) erase(ctx context.Context, d oci.Digest, tags []oci.Tag, crew string, sole bool) error {
	e, err := r.describeErasure(ctx, d, tags)
	if err != nil {
		return err
	}
	notes, noting, err := e.notes()
	if err != nil {
		return err
	}
	failed := r.reg.commit(ctx, append(noting, r.removal(d))...)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	if failed == nil {
		failed = r.forgetLink(ctx, e)
	}
	if failed == nil {
		failed = r.eraseTags(ctx, e, tags, crew, sole)
	}
	if failed != nil {
		return r.settle(ctx, d, notes, failed)
	}
	r.releasePromises(ctx, d, maxDepth)
	r.dropNotes(ctx, notes)
	return nil
}

// removal takes away a manifest's link, wherever a collector of garbage has it.
// Only when it is at neither place is the manifest deleted: so who finds the
// link later, moved there by whomever, knows that it was not.
func (r Repository) removal(d oci.Digest) driver.Stage {
	link := layout.RevisionLink(r.name, d)
	return driver.Stage{{Path: link, Remove: true}, {Path: layout.Aside(link), Remove: true}}
}

// dropNotes removes the notes of a deletion that is done, or did not happen. One that stays is
// dropped by who finishes deletions.
func (r Repository) dropNotes(ctx context.Context, notes []string) {
	for _, note := range notes {
		if err := r.reg.driver.Discard(ctx, note); err != nil {
			r.reg.log.Warn("the note of a deletion that has ended cannot be removed yet", zap.String("path", note), zap.Error(err))
		}
	}
}

// settle says how a deletion ended that failed: it did not happen as long as the
// manifest is there, or may come back after a power loss. Who finishes deletions
// then goes by what is there, and so does everybody who asks.
//
// One failure is not undone: the link is gone, and that cannot be made durable.
// The client is told of the failure, though nobody sees the manifest from that
// moment on. Writing the link anew would need the same disk to take it, and would
// undo what the client has asked for.
func (r Repository) settle(ctx context.Context, d oci.Digest, notes []string, failed error) error {
	_, err := r.reg.find(ctx, layout.RevisionLink(r.name, d), toRead)
	switch {
	case err == nil:
		r.dropNotes(ctx, notes)
		return failed
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
	link := layout.RevisionLink(r.name, d)
	return r.reg.driver.Flush(ctx, layout.Revisions(r.name, d.Algorithm()), path.Dir(link), path.Dir(layout.Aside(link)))
}

// forgetLink removes the link of a manifest that a collector of garbage moved
// while it was removed, so that it was missed at both places. A link that was
// written since stays.
func (r Repository) forgetLink(ctx context.Context, e *erasure) error {
	path := layout.RevisionLink(r.name, e.Digest)
	aside := layout.Aside(path)
	for range turns {
		taken, err := r.reg.takeLink(ctx, path, aside, e.Digest, e.Changed)
		if err == nil && taken {
			err = r.flushRemoval(ctx, e.Digest)
		}
		if err != nil {
			return err
		}
		left, err := r.reg.isLink(ctx, aside, e.Digest, e.Changed)
		if err != nil || !taken && !left {
			return err
		}
		if err := r.reg.driver.Remove(ctx, aside); err != nil && !absent(err) {
			return err
		}
	}
	return restless(path)
}
