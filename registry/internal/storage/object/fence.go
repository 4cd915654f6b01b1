package object

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"slipway/registry/internal/storage"
)

// claim replaces the remembered checkpoint that the upload goes on from. placing says that nobody may
// take it over afterwards. If another process has gone on from it without adding to it, that one is fenced.
// ErrUploadTaken if it has added something, ErrNotExist if it has ended the upload. It needs u.mu.
func (u *upload) claim(ctx context.Context, placing bool, before time.Time) error {
	c := u.c
	c.Holder, c.Placing = rand.Text(), placing
	if u.claimed {
		return u.replace(ctx, c, before)
	}
	version, err := u.s.shelf.save(ctx, u.key, c, u.version, before)
	if err == nil {
		u.c, u.version, u.claimed = c, version, true
	}
	if !errors.Is(err, storage.ErrConflict) {
		return err
	}
	if err := u.retake(ctx); err != nil || !placing {
		return err
	}
	return u.claim(ctx, placing, before)
}

// replace saves c if the upload is still held.
func (u *upload) replace(ctx context.Context, c checkpoint, before time.Time) error {
	version, err := u.s.shelf.save(ctx, u.key, c, u.version, before)
	if errors.Is(err, storage.ErrConflict) {
		return u.lose(ctx)
	}
	if err == nil {
		u.c, u.version = c, version
	}
	return err
}

// lose finds out why the checkpoint is not this holder's any more.
func (u *upload) lose(ctx context.Context) error {
	u.lost = storage.ErrUploadTaken
	if _, _, _, err := u.s.shelf.load(ctx, u.key); errors.Is(err, storage.ErrNotExist) {
		u.lost = storage.ErrNotExist
	}
	return u.lost
}

// retake takes the upload over whose remembered checkpoint another process has replaced, unless
// that one has added something.
func (u *upload) retake(ctx context.Context) error {
	size := u.told + u.spooled
	u.spool.Close()
	err := u.takeOver(ctx)
	if err == nil && u.told+u.spooled != size {
		err = storage.ErrUploadTaken
	}
	if err != nil {
		u.spool.Close()
		u.lost = storage.ErrUploadTaken
		if errors.Is(err, storage.ErrNotExist) {
			u.lost = storage.ErrNotExist
		}
	}
	return err
}

// fence makes sure that nobody can take the upload over. Where the answer to a deletion is lost two holders may
// pass: both have checked the bytes, which are the same. It needs u.mu.
func (u *upload) fence(ctx context.Context, before time.Time) error {
	if !u.s.o.Shared || u.version == "" {
		return nil // only this process knows of it
	}
	if !u.s.limits.ConditionalDelete || u.s.limits.BlindDelete {
		return u.claim(ctx, true, before)
	}
	u.c.Holder = rand.Text() // what is saved afterwards is another checkpoint than the one that is deleted
	how := &Change{If: storage.IfVersion(u.version), Before: before}
	err := u.s.Delete(ctx, beside(u.key), how)
	switch {
	case err == nil:
		u.version, u.claimed = "", true
		return nil
	case errors.Is(err, storage.ErrDenied): // an account without the right to delete can still mark the checkpoint
		return u.claim(ctx, true, before)
	case !errors.Is(err, storage.ErrConflict):
		u.claimed = u.claimed || how.Lost // Suspend saves it, so that a deletion which comes late misses it
		return err
	case u.claimed:
		return u.lose(ctx)
	}
	if err := u.retake(ctx); err != nil {
		return err
	}
	return u.fence(ctx, before)
}
