package registry

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// Commit makes the upload a blob of the repository, durably, even if the client
// hangs up meanwhile. On DIGEST_INVALID the upload stays as it is, to be
// committed with the right digest. The bytes are always put in place, over what
// lies there: so a push repairs a damaged blob.
func (u *Upload) Commit(ctx context.Context, d oci.Digest) (oci.Descriptor, error) {
	reg := u.repo.reg
	if u.done {
		return oci.Descriptor{}, uploadUnknown()
	}
	if err := reg.takes(ctx); err != nil {
		return oci.Descriptor{}, err
	}
	if err := reg.uploads.begin(u); err != nil {
		return oci.Descriptor{}, fault(err)
	}
	defer reg.uploads.end(u)
	if err := u.verify(ctx, d); err != nil {
		return oci.Descriptor{}, err
	}
	if err := u.place(ctx, d); err != nil {
		return oci.Descriptor{}, fault(err)
	}
	u.done = true
	reg.learned(d, u.size)
	reg.seenIn(d, u.repo.name)
	u.discard(ctx)
	return oci.Descriptor{MediaType: mediaTypeBlob, Digest: d, Size: u.size}, nil
}

// verify is nil if the bytes are those of the digest. What this process has not
// hashed as it came in is read again. The states of hashes that distribution
// keeps on disk would save that after a restart, but they may outlive a power
// loss that the bytes before them did not.
func (u *Upload) verify(ctx context.Context, d oci.Digest) error {
	if u.hash == nil || u.alg != d.Algorithm() {
		u.rewind(d.Algorithm())
	}
	if err := u.catchUp(ctx); err != nil {
		return fault(err)
	}
	if got := u.alg.Digest(u.hash.Sum(nil)); got != d {
		return oci.NewError(oci.CodeDigestInvalid, fmt.Sprintf("the content is not that of %s but of %s", d, got))
	}
	return nil
}

// catchUp hashes what is not hashed yet. If the client gives up meanwhile, the
// next request goes on from there.
func (u *Upload) catchUp(ctx context.Context) error {
	if u.hashed == u.size {
		return nil
	}
	src, err := u.w.Reader(ctx, u.hashed)
	if err != nil {
		return err
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

func (u *Upload) place(ctx context.Context, d oci.Digest) error {
	if err := u.create(ctx); err != nil {
		return err
	}
	leave, err := u.repo.reg.driver.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	w := u.w
	u.w = nil
	link := layout.LayerLink(u.repo.name, d)
	u.repo.reg.promiseNew(ctx, link, u.looks)
	err = u.repo.reg.commit(ctx, driver.Stage{
		{Path: layout.BlobData(d), Upload: w},
		{Path: link, Content: layout.Link(d)},
	})
	if err == nil {
		return nil
	}
	if again := u.reopen(ctx); again != nil {
		return errors.Join(err, again)
	}
	return err
}

// reopen takes the bytes up again after a failed commit, if they are still
// there, so that the commit can be tried once more.
func (u *Upload) reopen(ctx context.Context) (err error) {
	u.w, err = u.repo.reg.driver.OpenUpload(context.WithoutCancel(ctx), u.dataPath())
	if err != nil {
		u.w, u.size = nil, 0
		u.rewind(u.alg)
		return err
	}
	if u.w.Size() != u.size {
		u.size = u.w.Size()
		u.rewind(u.alg)
	}
	return nil
}

// discard removes what is left beside the bytes after a commit. What stays
// behind is no harm: the purge takes it.
func (u *Upload) discard(ctx context.Context) {
	err := u.repo.reg.driver.Discard(context.WithoutCancel(ctx), layout.Upload(u.repo.name, u.id))
	if err != nil {
		u.repo.reg.log.Warn("the rest of an upload stays until the purge",
			zap.String("repository", string(u.repo.name)), zap.String("upload", u.id), zap.Error(err))
	}
}
