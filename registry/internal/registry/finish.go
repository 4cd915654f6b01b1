package registry

import (
	"context"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// finishDeletions finishes the deletions of manifests that a process had begun
// when it died, or that the storage kept from being finished. The failures name
// the notes of those that cannot be; the others are.
func (r *Registry) finishDeletions(ctx context.Context) (left failures) {
	for e, err := range r.driver.List(ctx, layout.Deleting, "") {
		if absent(err) {
			return left
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			left.add(layout.Deleting, err)
			return left
		}
		note := layout.Deleting + "/" + e.Name
		left.add(note, r.finishDeletion(ctx, note))
	}
	return left
}

func (r *Registry) finishDeletion(ctx context.Context, note string) error {
	old, err := r.abandoned(ctx, note)
	if err != nil {
		return err
	}
	e, err := r.readNote(ctx, note)
	if absent(err) {
		return nil // somebody else has finished it
	}
	if err != nil {
		return err
	}
	gone, err := r.Repository(e.Repository).finish(ctx, e)
	if err != nil || !gone && !old {
		return err
	}
	return r.driver.Discard(ctx, note)
}

// abandoned says whether nobody has in his hands any more what lies at path: it
// came there longer ago than anybody works on with what he has begun. False if
// nothing is there.
func (r *Registry) abandoned(ctx context.Context, path string) (bool, error) {
	info, err := r.driver.Stat(ctx, path)
	if absent(err) {
		return false, nil
	}
	return err == nil && r.driver.Now().Sub(info.Moved) > commitTimeout, err
}

// finish finishes a deletion whose manifest is gone. One whose link is anywhere
// was not deleted: that is what the client was told, unless he waits for the
// answer still, and others may rely on the manifest by now. Or it was pushed anew:
// then the tags that are still as they were noted may go all the same.
func (r Repository) finish(ctx context.Context, e *erasure) (gone bool, err error) {
	if gone, err = r.erased(ctx, e.Digest); err != nil || !gone {
		return gone, err
	}
	for part := range e.parts(tagsFinished) {
		if err := r.takeTagsAlone(ctx, part); err != nil {
			return true, err
		}
	}
	return true, nil
}

// tagsFinished is how many tags a deletion that is finished takes before others
// have their turn.
const tagsFinished = 1000

// erased says whether a manifest is gone, durably.
func (r Repository) erased(ctx context.Context, d oci.Digest) (bool, error) {
	mu := r.lock()
	mu.Lock()
	defer mu.Unlock()
	if _, err := r.reg.find(ctx, layout.RevisionLink(r.name, d), toRead); !absent(err) {
		return false, err
	}
	return true, r.flushRemoval(ctx, d)
}

func (r Repository) takeTagsAlone(ctx context.Context, e *erasure) error {
	mu := r.lock()
	mu.Lock()
	defer mu.Unlock()
	return r.takeTags(ctx, e)
}
