package upload

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// Commit ends the upload. place puts the bytes, which are those of the digest, where they belong,
// by [Upload.Put]. After an error, and on DIGEST_INVALID, the upload stays, to be committed
// again, unless its bytes are in doubt (see [storage.Change]).
func (u *Upload) Commit(ctx context.Context, d oci.Digest, place func() error) error {
	if u.done {
		return unknown()
	}
	if err := u.lock(ctx); err != nil {
		return err
	}
	defer u.unlock()
	if err := u.verify(ctx, d); err != nil {
		return err
	}
	if err := place(); err != nil {
		return err
	}
	u.done = true
	u.clear(context.WithoutCancel(ctx))
	return nil
}

// Verify is nil if the upload holds the bytes of the digest; else DIGEST_INVALID.
func (u *Upload) Verify(ctx context.Context, d oci.Digest) error {
	if err := u.lock(ctx); err != nil {
		return err
	}
	defer u.unlock()
	return u.verify(ctx, d)
}

// Put is what the place of a commit calls, again after it has failed. apply makes the change,
// which puts the bytes at the key, and then the last ones, which may be none.
func (u *Upload) Put(ctx context.Context, key string, apply func(bytes storage.Change, last ...storage.Stage) error) error {
	size := u.size
	if err := u.resumed(ctx); err != nil {
		return err
	}
	if u.size != size {
		return fmt.Errorf("upload has %d bytes instead of %d", u.size, size)
	}
	w := u.w
	u.w = nil // the store closes it, also if it fails
	var last []storage.Stage
	if u.in.store.Remote && !u.whole { // with what the store has to delete itself
		last = []storage.Stage{{u.notStarted()}}
	}
	err := apply(storage.Change{Key: key, Upload: w}, last...)
	if absent(err) { // another process has ended it
		return unknown()
	}
	return u.outrun(w, err)
}

// notStarted removes the note that the upload has begun.
func (u *Upload) notStarted() storage.Change {
	return storage.Change{Key: layout.UploadStartedAt(u.name, u.id), Delete: true, Ephemeral: true}
}

// clear removes what is left beside the bytes after a commit. What stays is removed
// by a purge.
func (u *Upload) clear(ctx context.Context) {
	var err error
	switch {
	case u.foreign: // distribution keeps states of its hashes, too
		err = u.clearAll(ctx)
	case !u.in.store.Remote:
		err = u.in.store.Apply(ctx, nil, storage.Stage{u.notStarted()})
	}
	if err != nil {
		u.in.log.Warn("the rest of an upload stays until the purge",
			zap.String("repository", string(u.name)), zap.String("upload", u.id), zap.Error(err))
	}
}
