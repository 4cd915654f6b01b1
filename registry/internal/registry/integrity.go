package registry

import (
	"context"
	"errors"
	"io"
	"strings"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// integrity is what is known about the length of a digest's content.
type integrity struct {
	size int64
	// proved: the content was hashed while it was counted, so no other length
	// can be right. Else a manifest says so, and manifests may lie.
	proved bool
	// Size and version of stored bytes that were read again and found damaged.
	badSize    int64
	badVersion string
}

// learn remembers the length that a manifest claims for a digest.
func (r *Registry) learn(d oci.Digest, size int64) {
	if size <= 0 {
		return
	}
	if _, ok := r.integrity.Get(d); !ok {
		r.integrity.Put(oci.Digest(strings.Clone(string(d))), integrity{size: size, badSize: -1}, 1)
	}
}

// learned remembers the length of content that was hashed as it came in.
func (r *Registry) learned(d oci.Digest, size int64) {
	r.integrity.Put(oci.Digest(strings.Clone(string(d))), integrity{size: size, proved: true, badSize: -1}, 1)
}

// whole is nil unless the stored bytes are known to be damaged: empty, or of
// another length than their upload or their manifest said. Where only a manifest
// says so, the bytes are read again, once, so that a lying manifest does not make
// a blob unusable for everybody.
func (r *Registry) whole(ctx context.Context, s *section, d oci.Digest, info storage.Info) error {
	if info.Size == 0 && !d.Empty() {
		return ErrDamaged
	}
	if known, ok := r.integrity.Get(d); !ok || known.size == info.Size {
		return nil
	}
	return r.prove(ctx, s, d, info)
}

// prove reads the stored bytes of d again, unless that would tell nothing new, and
// remembers the outcome. One blob at a time: it is rare, and must not be a way to
// keep the disk busy. It goes on though the client hangs up, else each request
// would begin anew. In a section, which may not last so long, it ends the attempt.
func (r *Registry) prove(ctx context.Context, s *section, d oci.Digest, info storage.Info) error {
	if known, err := r.verdict(d, info); known {
		return err
	}
	if s != nil {
		return &unproved{d, info}
	}
	select {
	case r.proving <- struct{}{}:
		defer func() { <-r.proving }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if known, err := r.verdict(d, info); known {
		return err
	}
	sum, size, err := r.rehash(context.WithoutCancel(ctx), d)
	if err != nil {
		return err
	}
	if sum == d {
		r.learned(d, size)
		return nil
	}
	r.log.Error("stored content is damaged", zap.String("digest", string(d)), zap.Int64("size", size))
	known, _ := r.integrity.Get(d)
	known.badSize, known.badVersion = info.Size, info.Version
	r.integrity.Put(d, known, 1)
	return ErrDamaged
}

// unproved ends an attempt: stored bytes have to be read again, outside of a section.
type unproved struct {
	digest oci.Digest
	info   storage.Info
}

func (u *unproved) Error() string { return string(u.digest) + " has to be read again" }

// verdict is what is known of the bytes in this state without reading them.
func (r *Registry) verdict(d oci.Digest, info storage.Info) (known bool, err error) {
	i, ok := r.integrity.Get(d)
	switch {
	case ok && i.proved && i.size == info.Size:
		return true, nil
	case ok && i.proved:
		return true, ErrDamaged
	case ok && i.badSize == info.Size && i.badVersion == info.Version:
		return true, ErrDamaged
	default:
		return false, nil
	}
}

// damageIsAbsence makes clients push a damaged blob again, and logs it.
func (r *Registry) damageIsAbsence(d oci.Digest, err error) error {
	if !errors.Is(err, ErrDamaged) {
		return err
	}
	r.log.Error("a damaged blob is answered as unknown", zap.String("digest", string(d)))
	return blobUnknown(d, err)
}

func (r *Registry) rehash(ctx context.Context, d oci.Digest) (oci.Digest, int64, error) {
	o, err := r.store.Open(ctx, layout.BlobData(d), 0, -1)
	if err != nil {
		return "", 0, err
	}
	defer o.Close()
	h := d.Algorithm().New()
	n, err := io.Copy(h, o)
	return d.Algorithm().Digest(h.Sum(nil)), n, err
}
