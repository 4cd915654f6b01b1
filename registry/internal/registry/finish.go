package registry

import (
	"context"

	"slipway/registry/internal/layout"
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
// answer still, and others may rely on the manifest by now. Or it was pushed anew.
func (r Repository) finish(ctx context.Context, e *erasure) (gone bool, err error) {
	mu := r.lock()
	mu.Lock()
	defer mu.Unlock()
	if _, err := r.reg.find(ctx, layout.RevisionLink(r.name, e.Digest), toRead); !absent(err) {
		return false, err
	}
	if err := r.flushRemoval(ctx, e.Digest); err != nil {
		return false, err
	}
	return true, r.takeTags(ctx, e)
}
