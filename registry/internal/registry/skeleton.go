package registry

import (
	"context"
	"errors"
	"io"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/oci"
)

// ErrDamaged is inside the error of a read of content whose bytes are known
// not to be those of its digest. It is a fault (500), never served; HEAD of it
// is answered as unknown, so that clients push it again, which repairs it.
var ErrDamaged = errors.New("the stored content is damaged")

// ErrManifestTooLarge is inside the MANIFEST_INVALID error of a manifest over
// the size limit, which the API answers with 413.
var ErrManifestTooLarge = errors.New("manifest too large")

// ErrUploadTaken is inside the error of an operation on an upload that a later
// request has taken over.
var ErrUploadTaken = driver.ErrUploadTaken

var errSkeleton = errors.New("not yet")

// Blob is an open blob. The caller closes it.
type Blob struct {
	oci.Descriptor
	driver.File
}

// Size is the blob's length (both embedded values have one).
func (b *Blob) Size() int64 { return b.Descriptor.Size }

// StatBlob describes a blob of the repository. BLOB_UNKNOWN if it is not there, or known to be damaged.
func (r Repository) StatBlob(ctx context.Context, d oci.Digest) (oci.Descriptor, error) {
	return oci.Descriptor{}, errSkeleton
}

// OpenBlob opens a blob of the repository.
func (r Repository) OpenBlob(ctx context.Context, d oci.Digest) (*Blob, error) { return nil, errSkeleton }

// DeleteBlob takes a blob out of the repository.
func (r Repository) DeleteBlob(ctx context.Context, d oci.Digest) error { return errSkeleton }

// MountBlob puts a blob of another repository ("" = any) into this one. BLOB_UNKNOWN (and NAME_UNKNOWN, DENIED) if that cannot be: the client then uploads.
func (r Repository) MountBlob(ctx context.Context, d oci.Digest, from oci.Name, canPull func(oci.Name) bool) (oci.Descriptor, error) {
	return oci.Descriptor{}, errSkeleton
}

// StartUpload begins an upload. alg is the algorithm that Commit will probably ask for ("" = sha256).
func (r Repository) StartUpload(ctx context.Context, alg oci.Algorithm) (*Upload, error) {
	return nil, errSkeleton
}

// ResumeUpload takes up an upload; a writer that still holds it fails from then on.
func (r Repository) ResumeUpload(ctx context.Context, id string) (*Upload, error) {
	return nil, errSkeleton
}

// UploadStatus describes an upload under way.
type UploadStatus struct {
	Size      int64
	StartedAt time.Time
}

// UploadStatus looks at an upload without taking it over.
func (r Repository) UploadStatus(ctx context.Context, id string) (UploadStatus, error) {
	return UploadStatus{}, errSkeleton
}

// Upload is a session on an upload. One goroutine uses it.
type Upload struct{}

// ID names the upload in its URL.
func (u *Upload) ID() string { return "" }

// Size is the number of bytes received so far.
func (u *Upload) Size() int64 { return 0 }

// StartedAt is when the upload was begun.
func (u *Upload) StartedAt() time.Time { return time.Time{} }

// Taken is closed when another request takes the upload over: whoever reads for this session should stop.
func (u *Upload) Taken() <-chan struct{} { return nil }

// Append stores what src gives until EOF. What arrived before an error stays; a failure of src is returned wrapped.
func (u *Upload) Append(ctx context.Context, src io.Reader) (int64, error) { return 0, errSkeleton }

// Commit makes the upload a blob of the repository. On DIGEST_INVALID the upload stays as it is.
func (u *Upload) Commit(ctx context.Context, d oci.Digest) (oci.Descriptor, error) {
	return oci.Descriptor{}, errSkeleton
}

// Cancel removes the upload.
func (u *Upload) Cancel(ctx context.Context) error { return errSkeleton }

// Close ends the session and keeps the upload. After Commit or Cancel it does nothing.
func (u *Upload) Close() error { return nil }

// Manifest is a stored manifest. It is shared: nobody changes it.
type Manifest struct {
	oci.Descriptor // MediaType, Digest, Size
	Bytes          []byte
	*oci.Manifest
}

// Manifest returns a manifest by tag or digest. MANIFEST_UNKNOWN, NAME_UNKNOWN.
func (r Repository) Manifest(ctx context.Context, ref oci.Reference) (*Manifest, error) {
	return nil, errSkeleton
}

// PutResult tells what a push of a manifest did.
type PutResult struct {
	Descriptor oci.Descriptor
	Subject    oci.Digest // "" if it has none
	Tags       []oci.Tag
}

// PutManifest stores a manifest under ref and, beside that, under tags.
func (r Repository) PutManifest(ctx context.Context, ref oci.Reference, mediaType string, body []byte, tags []oci.Tag) (PutResult, error) {
	return PutResult{}, errSkeleton
}

// DeleteManifest removes a manifest and the tags that point at it.
func (r Repository) DeleteManifest(ctx context.Context, d oci.Digest) (removed []oci.Tag, err error) {
	return nil, errSkeleton
}

// DeleteTag removes a tag and nothing else.
func (r Repository) DeleteTag(ctx context.Context, tag oci.Tag) error { return errSkeleton }

// Tags lists at most n tags (n < 0: all) strictly after last, sorted bytewise. The slice is shared: nobody changes it.
func (r Repository) Tags(ctx context.Context, n int, last string) (tags []string, more bool, err error) {
	return nil, false, errSkeleton
}

// Referrers lists at most limit manifests (limit <= 0: a default) whose subject is the digest, sorted by digest, strictly after the digest after.
// next is "" on the last page, else the digest to go on after.
func (r Repository) Referrers(ctx context.Context, subject oci.Digest, artifactType, after string, limit int) (descs []oci.Descriptor, next string, err error) {
	return nil, "", errSkeleton
}

// Catalog lists at most n repositories that hold manifests, after last, component by component.
func (r *Registry) Catalog(ctx context.Context, n int, last string) (names []string, more bool, err error) {
	return nil, false, errSkeleton
}

// PurgeOptions says which uploads go.
type PurgeOptions struct {
	Age    time.Duration
	DryRun bool
}

// PurgeReport tells what a purge did.
type PurgeReport struct {
	Purged []string // "<repository>/<id>"
	Errors int
}

// PurgeUploads removes uploads without activity for the age.
func (r *Registry) PurgeUploads(ctx context.Context, opts PurgeOptions) (PurgeReport, error) {
	return PurgeReport{}, errSkeleton
}

// RunPurge purges every interval until ctx ends. The caller runs it in a goroutine of its own and waits for it.
func (r *Registry) RunPurge(ctx context.Context, interval time.Duration, opts PurgeOptions) {}
