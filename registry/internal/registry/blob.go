package registry

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// mediaTypeBlob is the type of every blob: the registry does not know what is
// inside.
const mediaTypeBlob = "application/octet-stream"

// emptyLinkPause is how long a writer is given to fill a link that it has
// emptied.
const emptyLinkPause = 2 * time.Millisecond

// Blob is an open blob. The caller closes it.
type Blob struct {
	oci.Descriptor
	driver.File
}

// Size is the blob's length.
func (b *Blob) Size() int64 { return b.Descriptor.Size }

// StatBlob describes a blob of the repository. BLOB_UNKNOWN if it is not there,
// or known to be damaged, so that clients push it again. Else the blob stays for
// Options.PromiseAge.
func (r Repository) StatBlob(ctx context.Context, d oci.Digest) (oci.Descriptor, error) {
	desc, _, err := r.healthyBlob(ctx, d, toTell)
	return desc, err
}

// OpenBlob opens a blob of the repository. BLOB_UNKNOWN, NAME_UNKNOWN; a fault
// with ErrDamaged.
func (r Repository) OpenBlob(ctx context.Context, d oci.Digest) (*Blob, error) {
	target, err := r.blobLink(ctx, d, toRead)
	if err != nil {
		return nil, r.missingBlob(ctx, err)
	}
	f, err := r.reg.openAnywhere(ctx, layout.BlobData(target))
	if absent(err) {
		return nil, blobUnknown(d, err)
	}
	if err != nil {
		return nil, fault(err)
	}
	if err := r.reg.wholeFile(ctx, target, f); err != nil {
		f.Close()
		return nil, fault(err)
	}
	return &Blob{oci.Descriptor{MediaType: mediaTypeBlob, Digest: d, Size: f.Size()}, f}, nil
}

// wholeFile is whole for an open file, which is asked for more only where its
// length is not what it should be.
func (r *Registry) wholeFile(ctx context.Context, d oci.Digest, f driver.File) error {
	if note, ok := r.sizes.get(d); f.Size() != 0 && (!ok || note.size == f.Size()) {
		return nil
	}
	info, err := r.find(ctx, layout.BlobData(d), toRead)
	if err != nil {
		return err
	}
	return r.whole(ctx, d, info)
}

// DeleteBlob takes a blob out of the repository. Its bytes stay: other
// repositories may have it too.
func (r Repository) DeleteBlob(ctx context.Context, d oci.Digest) error {
	if err := r.reg.deletable(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	err := r.reg.removeAnywhere(ctx, layout.LayerLink(r.name, d))
	if absent(err) {
		return r.unknown(ctx, blobUnknown(d, nil))
	}
	return fault(err)
}

// statBlob describes a blob and says under which digest its bytes lie. A
// damaged one is an error with ErrDamaged.
func (r Repository) statBlob(ctx context.Context, d oci.Digest, why purpose) (desc oci.Descriptor, target oci.Digest, err error) {
	target, err = r.blobLink(ctx, d, why)
	if err != nil {
		return desc, "", err
	}
	info, err := r.reg.find(ctx, layout.BlobData(target), why)
	if absent(err) || err == nil && info.Dir {
		return desc, "", blobUnknown(d, err)
	}
	if err == nil {
		err = r.reg.whole(ctx, target, info)
	}
	return oci.Descriptor{MediaType: mediaTypeBlob, Digest: d, Size: info.Size}, target, fault(err)
}

// healthyBlob is statBlob where damage counts as absence.
func (r Repository) healthyBlob(ctx context.Context, d oci.Digest, why purpose) (oci.Descriptor, oci.Digest, error) {
	desc, target, err := r.statBlob(ctx, d, why)
	return desc, target, r.reg.damageIsAbsence(d, err)
}

// damageIsAbsence makes clients push a damaged blob again, and tells the log.
func (r *Registry) damageIsAbsence(d oci.Digest, err error) error {
	if !errors.Is(err, ErrDamaged) {
		return err
	}
	r.log.Error("a damaged blob is answered as unknown", zap.String("digest", string(d)))
	return blobUnknown(d, err)
}

// blobLink looks whether the repository has the blob and returns the digest
// under which its bytes lie: d itself, or what distribution linked a sha512
// digest to. Links are as long as their digest, so one look is enough for all
// others. BLOB_UNKNOWN.
func (r Repository) blobLink(ctx context.Context, d oci.Digest, why purpose) (oci.Digest, error) {
	path := layout.LayerLink(r.name, d)
	info, err := r.reg.find(ctx, path, why)
	target := d
	if err == nil && info.Size != int64(len(d)) {
		target, err = r.reg.readLinkTwice(ctx, path, layout.Aside(path))
	}
	if err == nil && why == toTell {
		err = r.reg.renew(ctx, path, target, info)
	}
	if absent(err) || isBadLink(err) || info.Dir {
		return "", blobUnknown(d, err)
	}
	return target, fault(err)
}

// readLink reads a link file that others may have at the other path; errors are
// those of the driver and of layout.ParseLink.
func (r *Registry) readLink(ctx context.Context, path, other string) (oci.Digest, error) {
	b, err := r.readEither(ctx, path, other, layout.MaxLink)
	if errors.Is(err, driver.ErrTooLarge) {
		return "", layout.ErrBadLink
	}
	if err != nil {
		return "", err
	}
	return layout.ParseLink(b)
}

// readLinkTwice reads a link file, a second time if it is empty: distribution
// 2.8 empties a link before it writes it anew.
func (r *Registry) readLinkTwice(ctx context.Context, path, other string) (oci.Digest, error) {
	d, err := r.readLink(ctx, path, other)
	if errors.Is(err, layout.ErrEmptyLink) {
		time.Sleep(emptyLinkPause)
		d, err = r.readLink(ctx, path, other)
	}
	return d, err
}

func blobUnknown(d oci.Digest, cause error) *oci.Error {
	return &oci.Error{Code: oci.CodeBlobUnknown, Detail: string(d), Err: cause}
}

// missingBlob turns BLOB_UNKNOWN into NAME_UNKNOWN where there is no
// repository. Reads of a blob can afford the question, HEAD cannot.
func (r Repository) missingBlob(ctx context.Context, err error) error {
	var e *oci.Error
	if errors.As(err, &e) && e.Code == oci.CodeBlobUnknown {
		return r.unknown(ctx, e)
	}
	return err
}
