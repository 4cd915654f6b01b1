package registry

import (
	"context"
	"io"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// sizeNote is what is known about the length of a digest's content.
type sizeNote struct {
	size int64
	// proved: the content was hashed while it was counted, so no other length
	// can be right. Else a manifest says so, and manifests may lie.
	proved bool
	// The state of the stored bytes that were re-read and found wrong.
	badSize    int64
	badChanged time.Time
}

// learn notes the length that a manifest claims for a digest.
func (r *Registry) learn(d oci.Digest, size int64) {
	if size <= 0 {
		return
	}
	if _, ok := r.sizes.get(d); !ok {
		r.sizes.put(oci.Digest(strings.Clone(string(d))), sizeNote{size: size, badSize: -1}, 1)
	}
}

// learned notes the length of content that was hashed as it came in.
func (r *Registry) learned(d oci.Digest, size int64) {
	r.sizes.put(oci.Digest(strings.Clone(string(d))), sizeNote{size: size, proved: true, badSize: -1}, 1)
}

// whole is nil unless the stored bytes are known to be damaged: empty, or of
// another length than their upload or their manifest said. Against a manifest's
// word the bytes are re-read, once, lest a lying manifest take a blob away from
// everybody.
func (r *Registry) whole(ctx context.Context, d oci.Digest, info driver.Info) error {
	if info.Size == 0 && !d.Empty() {
		return ErrDamaged
	}
	if note, ok := r.sizes.get(d); !ok || note.size == info.Size {
		return nil
	}
	return r.prove(ctx, d, info)
}

// prove re-reads the stored bytes of d, unless that would tell nothing new, and
// remembers the outcome. One blob at a
// time: it is rare, and should not be a way to keep the disk busy. Once begun it
// goes on though the client hangs up, lest it begin anew with each request.
func (r *Registry) prove(ctx context.Context, d oci.Digest, info driver.Info) error {
	if known, err := r.verdict(d, info); known {
		return err
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
	note, _ := r.sizes.get(d)
	note.badSize, note.badChanged = info.Size, info.Changed
	r.sizes.put(d, note, 1)
	return ErrDamaged
}

// verdict is what is known of the bytes in this state without reading them.
func (r *Registry) verdict(d oci.Digest, info driver.Info) (known bool, err error) {
	note, ok := r.sizes.get(d)
	switch {
	case ok && note.proved && note.size == info.Size:
		return true, nil
	case ok && note.proved:
		return true, ErrDamaged
	case ok && note.badSize == info.Size && note.badChanged.Equal(info.Changed):
		return true, ErrDamaged
	default:
		return false, nil
	}
}

func (r *Registry) rehash(ctx context.Context, d oci.Digest) (oci.Digest, int64, error) {
	f, err := r.openAnywhere(ctx, layout.BlobData(d))
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := d.Algorithm().New()
	n, err := copyHash(ctx, h, f)
	return d.Algorithm().Digest(h.Sum(nil)), n, err
}

// copyHash feeds all of src to h, until ctx ends.
func copyHash(ctx context.Context, h io.Writer, src io.Reader) (int64, error) {
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)
	var total int64
	for ctx.Err() == nil {
		n, err := src.Read(buf[:])
		h.Write(buf[:n]) //nolint:errcheck // a hash never fails
		total += int64(n)
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
	return total, ctx.Err()
}
