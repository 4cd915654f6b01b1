package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry/tags"
	"slipway/registry/internal/storage"
)

// mediaTypeBlob is the type of every blob: the registry does not know what is
// inside.
const mediaTypeBlob = "application/octet-stream"

// Blob is an open blob, an io.ReadSeekCloser. The caller closes it.
type Blob struct {
	oci.Descriptor
	object *storage.Object // nil = the next Read opens it
	at     int64           // offset of the next Read
	read   int64           // offset of object, which may not be able to seek
	open   func(offset int64) (*storage.Object, error)
}

// Size returns the blob's length in bytes.
func (b *Blob) Size() int64 { return b.Descriptor.Size }

// File returns the file behind the blob, positioned where the next Read begins, if there
// is one: the kernel can send it. The caller must not call Read as well.
func (b *Blob) File() (storage.Sendable, bool) {
	if b.object == nil {
		return nil, false
	}
	return storage.File(b.object)
}

// Read implements io.Reader.
func (b *Blob) Read(p []byte) (n int, err error) {
	if _, seeks := b.seeker(); b.object != nil && !seeks && b.read != b.at {
		if err := b.Close(); err != nil {
			return 0, err
		}
	}
	if b.object == nil {
		if b.object, err = b.open(b.at); err != nil {
			return 0, err
		}
		b.read = b.at
	}
	n, err = b.object.Read(p)
	b.at += int64(n)
	b.read = b.at
	return n, err
}

// Seek implements io.Seeker. It does no I/O.
func (b *Blob) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += b.at
	case io.SeekEnd:
		offset += b.Size()
	}
	if offset < 0 {
		return 0, fmt.Errorf("seek to %d in a blob", offset)
	}
	if offset == b.at {
		return offset, nil
	}
	if s, ok := b.seeker(); ok {
		if _, err := s.Seek(offset, io.SeekStart); err != nil {
			return 0, err
		}
	} // otherwise the next Read opens it there, unless it is already there
	b.at = offset
	return offset, nil
}

// seeker returns the source of the blob if it can seek.
func (b *Blob) seeker() (io.Seeker, bool) {
	if f, ok := b.File(); ok {
		return f, true
	}
	if b.object == nil {
		return nil, false
	}
	s, ok := b.object.ReadCloser.(io.Seeker)
	return s, ok
}

// Close implements io.Closer.
func (b *Blob) Close() error {
	if b.object == nil {
		return nil
	}
	o := b.object
	b.object = nil
	return o.Close()
}

// StatBlob describes a blob of the repository, which is then kept for the grace period. The error is
// BLOB_UNKNOWN if the blob doesn't exist or is damaged, or if a manifest that was refused in the last minutes
// gave it another length than it has: then clients push it again.
func (r Repository) StatBlob(ctx context.Context, d oci.Digest) (desc oci.Descriptor, err error) {
	wrong, doubted := r.reg.doubted.Get(layout.LayerLink(r.name, d))
	if doubted = doubted && r.reg.now().Sub(wrong.at) < doubt; doubted {
		r.reg.blobs.Forget(d) // another replica may have replaced it
	}
	err = r.advertise(ctx, func(r Repository) error {
		desc, _, err = r.healthyBlob(ctx, d)
		return err
	})
	if err == nil && doubted && wrong.info.Size == desc.Size {
		err = blobUnknown(d, fmt.Errorf("a manifest gives it another length than %d", desc.Size))
	}
	return desc, err
}

// OpenBlob opens a blob of the repository. ctx bounds all reads. The error is BLOB_UNKNOWN also
// if the repository doesn't exist, as clients of distribution expect, and wraps ErrDamaged if the blob is damaged.
func (r Repository) OpenBlob(ctx context.Context, d oci.Digest) (b *Blob, err error) {
	return r.openBlob(ctx, d)
}

// ReadBlob reads a blob. content is nil if it has more than most bytes. The error is that of OpenBlob; it wraps ErrDamaged for bytes that
// don't have the digest, too.
func (r Repository) ReadBlob(ctx context.Context, d oci.Digest, most int64) (content []byte, err error) {
	b, err := r.OpenBlob(ctx, d)
	if err != nil {
		return nil, err
	}
	defer b.Close() //nolint:errcheck // it was only read
	if b.Size() > most {
		return nil, nil
	}
	content = make([]byte, b.Size())
	if _, err := io.ReadFull(b, content); err != nil {
		return nil, err
	}
	if d.Algorithm().FromBytes(content) != d {
		return nil, fmt.Errorf("%w: blob %s", ErrDamaged, d)
	}
	return content, nil
}

// MountBlob puts a blob that another repository has into this one, without an
// upload. canPull describes what the caller may read; nil stands for everything.
//
// BLOB_UNKNOWN and DENIED mean that the client should upload instead, unless
// quota.ErrExceeded is inside.
func (r Repository) MountBlob(ctx context.Context, d oci.Digest, from oci.Name, canPull func(oci.Name) bool) (oci.Descriptor, error) {
	if err := r.writable(); err != nil {
		return oci.Descriptor{}, err
	}
	var found mountSource
	err := r.try(ctx, func(r Repository) (err error) {
		if found, err = r.findMount(ctx, d, from, canPull); err != nil {
			return err
		}
		_, err = r.rely(ctx, layout.BlobData(found.target))
		if absent(err) {
			return blobUnknown(d, err)
		}
		if err != nil {
			return err
		}
		link := layout.LayerLink(r.name, d)
		charged, err := r.charge(ctx, link, found.desc.Size)
		if err != nil {
			return err
		}
		defer charged.Keep()
		return r.apply(ctx, storage.Stage{{Key: link, Content: layout.Link(found.target)}})
	})
	if err != nil {
		return oci.Descriptor{}, err
	}
	return found.desc, nil
}

// mountSource is the place of a blob to be mounted.
type mountSource struct {
	desc   oci.Descriptor
	target oci.Digest // under which its bytes are stored
}

func (r Repository) findMount(ctx context.Context, d oci.Digest, from oci.Name, canPull func(oci.Name) bool) (mountSource, error) {
	if canPull != nil && !canPull(from) {
		return mountSource{}, oci.Explain(oci.CodeDenied, "the caller may not pull from the repository that has the blob")
	}
	desc, target, err := r.reg.Repository(from).healthyBlob(ctx, d)
	return mountSource{desc, target}, err
}

// BlobURL describes a blob of the repository and returns a URL by which a client reads it
// from the store itself: a secret that works for some minutes. The URL is "", and the rest
// means nothing, if the client has to read it by OpenBlob: the store gives none. client is the address that
// will read, the zero address if it is not known. Errors are those of OpenBlob.
func (r Repository) BlobURL(ctx context.Context, d oci.Digest, client netip.Addr) (url string, desc oci.Descriptor, err error) {
	if r.reg.opts.Signer == nil {
		return "", desc, nil
	}
	desc, target, err := r.statBlob(ctx, d)
	if err != nil {
		return "", desc, err
	}
	url, err = r.reg.opts.Signer.SignedURL(ctx, layout.BlobData(target), mediaTypeBlob, client)
	if err != nil {
		return "", desc, nil //nolint:nilerr // the store has logged it, and the blob can be read from here
	}
	return url, desc, nil
}

// NewBlob returns a blob that is not, or not yet, in the store. It is read from first, which
// begins at its start and may be an io.Seeker; open begins to read it at an offset again.
func NewBlob(d oci.Digest, size int64, first io.ReadCloser, open func(offset int64) (io.ReadCloser, error)) *Blob {
	return &Blob{
		Descriptor: oci.Descriptor{MediaType: mediaTypeBlob, Digest: d, Size: size}, object: &storage.Object{ReadCloser: first},
		open: func(offset int64) (*storage.Object, error) {
			r, err := open(offset)
			if err != nil {
				return nil, err
			}
			return &storage.Object{ReadCloser: r}, nil
		},
	}
}

func (r Repository) openBlob(ctx context.Context, d oci.Digest) (*Blob, error) {
	target, err := r.blobLink(ctx, d)
	if err != nil {
		return nil, err
	}
	open := func(offset int64) (*storage.Object, error) {
		return r.reg.store.Open(ctx, layout.BlobData(target), offset, -1)
	}
	o, err := open(0)
	if absent(err) {
		return nil, blobUnknown(d, err)
	}
	if err != nil {
		return nil, err
	}
	if err := checkBytes(target, o.Info); err != nil {
		o.Close()
		return nil, err
	}
	return &Blob{Descriptor: oci.Descriptor{MediaType: mediaTypeBlob, Digest: d, Size: o.Size}, object: o, open: open}, nil
}

// DeleteBlob removes a blob from the repository. Its bytes stay: other
// repositories may have it too.
func (r Repository) DeleteBlob(ctx context.Context, d oci.Digest) error {
	if err := r.deletable(); err != nil {
		return err
	}
	key := layout.LayerLink(r.name, d)
	if _, err := r.reg.store.Stat(ctx, key); absent(err) {
		return blobUnknown(d, nil)
	} else if err != nil {
		return err
	}
	return r.apply(ctx, storage.Stage{{Key: key, Delete: true}})
}

// statBlob describes a blob and returns the digest under which its bytes are stored. In
// an attempt its link is renewed. A damaged one is an error with ErrDamaged.
func (r Repository) statBlob(ctx context.Context, d oci.Digest) (desc oci.Descriptor, target oci.Digest, err error) {
	bytes := storage.Ahead(r.reg.store.Remote, func() (storage.Info, error) { return r.reg.statBytes(ctx, d) })
	target, err = r.blobLink(ctx, d)
	if err != nil {
		return desc, "", err
	}
	if target != d {
		bytes = func() (storage.Info, error) { return r.reg.statBytes(ctx, target) }
	}
	info, err := bytes()
	if absent(err) {
		return desc, "", blobUnknown(d, err)
	}
	if err == nil {
		if err = checkBytes(target, info); err != nil {
			r.reg.blobs.Forget(target) // a push may repair it at once
		}
	}
	return oci.Descriptor{MediaType: mediaTypeBlob, Digest: d, Size: info.Size}, target, err
}

// statBytes describes the bytes of a blob. On a remote store, bytes that were there a moment ago
// aren't looked for again: the repository's link, which is read each time, keeps them.
func (r *Registry) statBytes(ctx context.Context, d oci.Digest) (storage.Info, error) {
	key := layout.BlobData(d)
	now := r.now()
	if seen, ok := r.blobs.Get(d); ok && now.Sub(seen.at) < bytesTrusted {
		return seen.info, nil
	}
	info, err := r.store.Stat(ctx, key)
	if err == nil && r.store.Remote {
		r.blobs.Put(oci.Digest(strings.Clone(string(d))), seenBytes{info, now}, 1)
	}
	return info, err
}

// seenBytes records when and how the bytes of a blob were last seen.
type seenBytes struct {
	info storage.Info
	at   time.Time
}

// checkBytes returns ErrDamaged for an empty object that shouldn't be empty, as a crash of another program
// leaves it. Only verify finds other damage.
func checkBytes(d oci.Digest, info storage.Info) error {
	if info.Size == 0 && !d.Empty() {
		return ErrDamaged
	}
	return nil
}

// healthyBlob is statBlob, except that damage counts as absence, so that clients push the blob again.
func (r Repository) healthyBlob(ctx context.Context, d oci.Digest) (oci.Descriptor, oci.Digest, error) {
	desc, target, err := r.statBlob(ctx, d)
	if errors.Is(err, ErrDamaged) {
		r.reg.log.Error("a damaged blob is answered as unknown", zap.String("digest", string(d)))
		err = blobUnknown(d, err)
	}
	return desc, target, err
}

// blobLink checks that the repository has the blob and returns the digest
// under which its bytes are stored: d itself, or what distribution linked a sha512
// digest to. Links are as long as their digest, so one request is enough for all
// others. The error is BLOB_UNKNOWN if the repository lacks the blob.
func (r Repository) blobLink(ctx context.Context, d oci.Digest) (oci.Digest, error) {
	key, target := layout.LayerLink(r.name, d), d
	info, err := r.rely(ctx, key)
	if err == nil && info.Size != int64(len(d)) {
		target, _, err = r.reg.store.Link(ctx, key)
	}
	if absent(err) || tags.IsBadLink(err) {
		return "", blobUnknown(d, err)
	}
	return target, err
}

func blobUnknown(d oci.Digest, cause error) *oci.Error {
	return &oci.Error{Code: oci.CodeBlobUnknown, Detail: string(d), Err: cause}
}
