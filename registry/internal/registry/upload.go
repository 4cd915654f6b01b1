package registry

import (
	"context"
	"errors"
	"io"
	"iter"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry/quota"
	"slipway/registry/internal/registry/upload"
	"slipway/registry/internal/storage"
)

// Upload is an upload to a repository.
type Upload struct {
	*upload.Upload
	repo Repository
}

// StartUpload begins an upload. alg is the algorithm of the digest that is
// expected, "" if nobody said.
func (r Repository) StartUpload(ctx context.Context, alg oci.Algorithm) (*Upload, error) {
	if err := r.writable(); err != nil {
		return nil, err
	}
	return r.received(r.reg.uploads.Start(ctx, r.name, alg))
}

// StartWhole begins an upload of a blob that comes with this request, of size bytes if that is
// not negative.
func (r Repository) StartWhole(ctx context.Context, d oci.Digest, size int64) (*Upload, error) {
	if err := r.writable(); err != nil {
		return nil, err
	}
	return r.received(r.reg.uploads.StartWhole(ctx, r.name, d, size))
}

// ResumeUpload takes an upload over. A request that still holds it fails from then on
// with ErrUploadTaken; one that is committing is waited for. BLOB_UPLOAD_UNKNOWN;
// RANGE_INVALID if the upload does not end at the offset: then nobody is disturbed.
func (r Repository) ResumeUpload(ctx context.Context, id string, at upload.Point) (*Upload, error) {
	if err := r.writable(); err != nil {
		return nil, err
	}
	return r.received(r.reg.uploads.Resume(ctx, r.name, id, at))
}

func (r Repository) received(u *upload.Upload, err error) (*Upload, error) {
	if err != nil {
		return nil, fault(err)
	}
	return &Upload{u, r}, nil
}

// UploadStatus looks at an upload without taking it over. BLOB_UPLOAD_UNKNOWN.
func (r Repository) UploadStatus(ctx context.Context, id string) (upload.Status, error) {
	st, err := r.reg.uploads.Status(ctx, r.name, id)
	return st, fault(err)
}

// Append stores what src gives until it ends, and returns how much that was: size bytes,
// or a number not known before if size is negative. What arrived before an error stays. A
// failure of src comes back wrapped. DENIED, with quota.ErrExceeded inside, if a quota has
// no room.
func (u *Upload) Append(ctx context.Context, src io.Reader, size int64) (int64, error) {
	if err := u.repo.writable(); err != nil {
		return 0, err
	}
	h := u.repo.hold(u.ID(), u.Size())
	if h == nil {
		return u.append(ctx, src)
	}
	before := u.Size()
	defer func() { h.Settle(ctx, u.Size()-before) }()
	if err := h.Take(ctx, size); err != nil {
		return 0, fault(err)
	}
	m := quota.NewMeter(ctx, src, h, max(size, 0))
	n, err := u.append(ctx, m)
	if m.Refused != nil {
		err = fault(m.Refused)
	}
	return n, err
}

func (u *Upload) append(ctx context.Context, src io.Reader) (int64, error) {
	n, err := u.Upload.Append(ctx, src)
	if errors.Is(err, upload.ErrSource) {
		return n, err
	}
	return n, fault(err)
}

// Commit makes the upload a blob of the repository, durably, even if the client
// hangs up meanwhile. On DIGEST_INVALID the upload stays as it is, to be
// committed with the right digest. The bytes are always put in place, over what
// is there: so a push repairs a damaged blob.
func (u *Upload) Commit(ctx context.Context, d oci.Digest) (oci.Descriptor, error) {
	reg := u.repo.reg
	if err := u.repo.writable(); err != nil {
		return oci.Descriptor{}, err
	}
	bytes, err := u.Seal(ctx, d)
	if err != nil {
		return oci.Descriptor{}, fault(err)
	}
	link, before := layout.LayerLink(u.repo.name, d), u.Size()
	freed := int64(0) // of the bytes that the quota counts for the upload
	if h := u.repo.hold(u.ID(), before); h != nil {
		defer func() { h.Settle(ctx, -freed) }()
		if _, err = reg.store.Stat(ctx, link); err == nil { // the repository has them already
			freed = before
		}
		err = unlessAbsent(err)
	}
	if err == nil {
		err = u.repo.apply(ctx, storage.Stage{{Key: layout.BlobData(d), Upload: bytes}, {Key: link, Content: layout.Link(d)}})
	}
	if err := u.Finish(ctx, err); err != nil {
		freed = before - u.Size()
		return oci.Descriptor{}, fault(err)
	}
	reg.integrity.Hashed(d, u.Size())
	return oci.Descriptor{MediaType: mediaTypeBlob, Digest: d, Size: u.Size()}, nil
}

// Cancel removes the upload and all that it wrote.
func (u *Upload) Cancel(ctx context.Context) error {
	ctx, cancel := detach(ctx)
	defer cancel()
	size := u.Size()
	h := u.repo.hold(u.ID(), size)
	err := u.Upload.Cancel(ctx)
	if err != nil {
		size = 0
	}
	h.Settle(ctx, -size)
	return fault(err)
}

// Close ends the request's hold. Unless it was committed or cancelled, the
// upload stays and can be resumed.
func (u *Upload) Close() error { return fault(u.Upload.Close()) }

// Uploads yields the unfinished uploads of all repositories. What cannot be read is
// an error, and the listing continues.
func (r *Registry) Uploads(ctx context.Context) iter.Seq2[upload.Unfinished, error] {
	return r.uploads.Unfinished(ctx)
}

// PurgeUploads removes unfinished uploads, and what writers that died have left, and counts
// again what quotas bound. What
// cannot be read is logged, counted and passed over; the error is that of ctx or of
// the last step.
func (r *Registry) PurgeUploads(ctx context.Context, opts upload.PurgeOptions) (upload.PurgeReport, error) {
	if err := r.writable(); err != nil && !opts.DryRun {
		return upload.PurgeReport{}, err
	}
	report, err := r.uploads.Purge(ctx, opts)
	if !opts.DryRun {
		r.opts.Quota.Count(ctx)
	}
	return report, fault(err)
}
