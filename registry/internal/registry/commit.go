package registry

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// Commit makes the upload a blob of the repository, durably, even if the client
// hangs up meanwhile. On DIGEST_INVALID the upload stays as it is, to be
// committed with the right digest. The bytes are always put in place, over what
// is there: so a push repairs a damaged blob.
func (u *Upload) Commit(ctx context.Context, d oci.Digest) (oci.Descriptor, error) {
	reg := u.repo.reg
	if u.done {
		return oci.Descriptor{}, uploadUnknown()
	}
	if err := u.repo.takes(); err != nil {
		return oci.Descriptor{}, err
	}
	if err := u.lock(ctx); err != nil {
		return oci.Descriptor{}, fault(err)
	}
	defer u.unlock()
	if err := u.verify(ctx, d); err != nil {
		return oci.Descriptor{}, fault(err)
	}
	ctx, cancel := detach(ctx)
	defer cancel()
	if err := reg.depend(ctx, func(s *section) error { return u.place(ctx, s, d) }); err != nil {
		return oci.Descriptor{}, fault(err)
	}
	u.done = true
	reg.learned(d, u.size)
	reg.seenIn(d, u.repo.name)
	u.clear(ctx)
	return oci.Descriptor{MediaType: mediaTypeBlob, Digest: d, Size: u.size}, nil
}

// Verify is nil if the upload holds the bytes of the digest; else DIGEST_INVALID.
func (u *Upload) Verify(ctx context.Context, d oci.Digest) error {
	if err := u.lock(ctx); err != nil {
		return fault(err)
	}
	defer u.unlock()
	return fault(u.verify(ctx, d))
}

// verify is nil if the bytes are those of the digest. What was not hashed as it came
// in is read again.
func (u *Upload) verify(ctx context.Context, d oci.Digest) error {
	if u.alg != d.Algorithm() {
		u.rewind(d.Algorithm())
	}
	if err := u.catchUp(ctx); err != nil {
		return err
	}
	if got := u.alg.Digest(u.hash.Sum(nil)); got != d {
		return oci.NewError(oci.CodeDigestInvalid, fmt.Sprintf("the content has the digest %s, not %s", got, d))
	}
	return nil
}

// catchUp hashes what is not hashed yet. If the client gives up meanwhile, the
// next request goes on from there.
func (u *Upload) catchUp(ctx context.Context) error {
	if u.hashed == u.size {
		return nil
	}
	if err := u.resumed(ctx); err != nil {
		return err
	}
	src, err := u.w.Reader(ctx, u.hashed)
	if absent(err) {
		return uploadUnknown()
	}
	if err != nil {
		return u.outrun(u.w, err)
	}
	defer src.Close()
	n, err := copyHash(ctx, u.hash, src)
	u.hashed += n
	if err == nil && u.hashed != u.size {
		err = fmt.Errorf("upload has %d bytes instead of %d", u.hashed, u.size)
		u.rewind(u.alg)
	}
	return err
}

// place puts bytes and link in place. The store closes its upload, also if it fails.
func (u *Upload) place(ctx context.Context, s *section, d oci.Digest) error {
	data, link := layout.BlobData(d), layout.LayerLink(u.repo.name, d)
	if s.Listed(data, link) {
		return errListed
	}
	if err := u.repo.charge(ctx, link, d, u.size); err != nil {
		return err
	}
	size := u.size
	if err := u.resumed(ctx); err != nil {
		return err
	}
	if u.size != size {
		return fmt.Errorf("upload has %d bytes instead of %d", u.size, size)
	}
	w := u.w
	u.w = nil
	stages := append(s.linked(d), storage.Stage{
		{Key: data, Upload: w},
		{Key: link, Content: layout.Link(d)},
	})
	if u.repo.reg.store.Remote && !u.whole { // with what the store has to delete itself
		stages = append(stages, storage.Stage{u.notStarted()})
	}
	err := u.repo.reg.apply(ctx, s, stages...)
	if absent(err) { // another process has ended it
		return uploadUnknown()
	}
	return u.outrun(w, err)
}

// notStarted removes the note that the upload has begun.
func (u *Upload) notStarted() storage.Change {
	return storage.Change{Key: layout.UploadStartedAt(u.repo.name, u.id), Delete: true, Ephemeral: true}
}

// clear removes what is left beside the bytes after a commit. What stays is removed
// by a purge.
func (u *Upload) clear(ctx context.Context) {
	var err error
	switch {
	case u.foreign: // distribution keeps states of its hashes, too
		err = u.repo.clearUpload(ctx, u.id)
	case !u.repo.reg.store.Remote:
		err = u.repo.reg.store.Apply(ctx, nil, storage.Stage{u.notStarted()})
	}
	if err != nil {
		u.repo.reg.log.Warn("the rest of an upload stays until the purge",
			zap.String("repository", string(u.repo.name)), zap.String("upload", u.id), zap.Error(err))
	}
}

func isConflict(err error) bool { return errors.Is(err, storage.ErrConflict) }
