package upload

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// Seal returns the bytes of the upload, which are those of the digest, for a
// storage.Change. Nobody else can use the upload until Finish, which must be called
// if the error is nil. On DIGEST_INVALID the upload stays as it is.
func (u *Upload) Seal(ctx context.Context, d oci.Digest) (storage.Upload, error) {
	if u.done {
		return nil, unknown()
	}
	if err := u.lock(ctx); err != nil {
		return nil, err
	}
	err := u.verify(ctx, d)
	if err == nil {
		err = u.resumed(ctx)
	}
	if err != nil {
		u.unlock()
		return nil, err
	}
	return u.w, nil
}

// Finish ends what Seal began. failed is the error of the Apply, nil if the bytes are in
// place. Else the upload can be sealed again, unless its bytes are in doubt (see
// [storage.Change]); if the storage is full it loses what this request brought.
func (u *Upload) Finish(ctx context.Context, failed error) error {
	defer u.unlock()
	if failed == nil {
		u.done, u.w = true, nil
		u.clear(context.WithoutCancel(ctx))
		return nil
	}
	if errors.Is(failed, storage.ErrNoSpace) {
		u.drop()
	}
	if absent(failed) { // another process has ended it
		return unknown()
	}
	return failed
}

// drop takes back what this request brought: a full storage keeps only what was
// acknowledged. Finding no room to do so changes nothing.
func (u *Upload) drop() {
	w := u.w
	u.w = nil
	if w == nil || w.Suspend(context.Background(), u.opened.size, u.opened.state) != nil {
		return
	}
	u.size, u.begun = u.opened.size, true
	if u.told.Store(u.size); !u.restore(u.opened.state) {
		u.rewind(u.alg)
	}
}

// clear removes what is left beside the bytes after a commit. The purge removes what stays.
func (u *Upload) clear(ctx context.Context) {
	var err error
	switch {
	case u.foreign: // distribution keeps states of its hashes, too
		err = u.clearAll(ctx)
	case !u.single:
		started := storage.Change{Key: layout.UploadStartedAt(u.name, u.id), Delete: true, Ephemeral: true}
		err = u.in.store.Apply(ctx, nil, storage.Stage{started})
	}
	if err != nil {
		u.in.log.Warn("the rest of an upload stays until the purge",
			zap.String("repository", string(u.name)), zap.String("upload", u.id), zap.Error(err))
	}
}
