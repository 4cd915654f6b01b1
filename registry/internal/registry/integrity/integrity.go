// Package integrity knows which stored blobs are damaged: of another length than their upload or a
// manifest said, and not of their digest when they are read again. It remembers that.
package integrity

import (
	"context"
	"errors"
	"io"
	"strings"

	"go.uber.org/zap"

	"slipway/registry/internal/cache"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// ErrDamaged is the error for bytes that are known not to be those of their digest.
var ErrDamaged = errors.New("the stored content is damaged")

// Unproved is the error for stored bytes that have to be read again before anything can be said.
type Unproved struct {
	Digest oci.Digest
	Info   storage.Info // of the bytes
}

// Error implements error.
func (u *Unproved) Error() string { return string(u.Digest) + " has to be read again" }

// Record is what is known. All methods are safe for concurrent use.
type Record struct {
	store   *tree.Store
	log     *zap.Logger
	known   *cache.Cache[oci.Digest, length]
	proving chan struct{} // holds a token while a blob is read again
}

// maxKnown bounds the number of digests that are remembered.
const maxKnown = 16 << 10

// length is what is known about the length of a digest's content.
type length struct {
	size int64
	// proved: the content was hashed while it was counted, so no other length
	// can be right. Else a manifest says so, and manifests may lie.
	proved bool
	// Size and version of stored bytes that were read again and found damaged.
	badSize    int64
	badVersion string
}

// New makes a record of the blobs of a store.
func New(store *tree.Store, log *zap.Logger) *Record {
	return &Record{store: store, log: log, known: cache.New[oci.Digest, length](maxKnown), proving: make(chan struct{}, 1)}
}

// Claimed notes the length that a manifest claims for a digest.
func (r *Record) Claimed(d oci.Digest, size int64) {
	if size <= 0 {
		return
	}
	if _, ok := r.known.Get(d); !ok {
		r.known.Put(oci.Digest(strings.Clone(string(d))), length{size: size, badSize: -1}, 1)
	}
}

// Hashed notes the length of content that was hashed.
func (r *Record) Hashed(d oci.Digest, size int64) {
	r.known.Put(oci.Digest(strings.Clone(string(d))), length{size: size, proved: true, badSize: -1}, 1)
}

// Check returns an error if the stored bytes of d, which info describes, are known to be damaged: empty,
// or of another length than their upload said. Where only a manifest says so, the error is
// *Unproved, so that a lying manifest does not make a blob unusable for everybody.
func (r *Record) Check(d oci.Digest, info storage.Info) error {
	if info.Size == 0 && !d.Empty() {
		return ErrDamaged
	}
	if known, ok := r.known.Get(d); !ok || known.size == info.Size {
		return nil
	}
	return r.Verdict(d, info)
}

// Verdict returns nil if the stored bytes of d were hashed, ErrDamaged if they are damaged, and *Unproved
// if neither is known.
func (r *Record) Verdict(d oci.Digest, info storage.Info) error {
	known, ok := r.known.Get(d)
	switch {
	case ok && known.proved && known.size == info.Size:
		return nil
	case ok && known.proved, ok && known.badSize == info.Size && known.badVersion == info.Version:
		return ErrDamaged
	default:
		return &Unproved{d, info}
	}
}

// Prove reads the stored bytes again, unless the verdict has become known, and remembers the
// outcome: nil or ErrDamaged. One blob at a time: it is rare, and must not be a way to
// keep the disk busy. It continues if the client hangs up, otherwise each request
// would begin again.
func (r *Record) Prove(ctx context.Context, u *Unproved) error {
	select {
	case r.proving <- struct{}{}:
		defer func() { <-r.proving }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := r.Verdict(u.Digest, u.Info); err == nil || errors.Is(err, ErrDamaged) {
		return err
	}
	sum, size, err := r.rehash(context.WithoutCancel(ctx), u.Digest)
	if err != nil {
		return err
	}
	if sum == u.Digest {
		r.Hashed(u.Digest, size)
		return nil
	}
	r.log.Error("stored content is damaged", zap.String("digest", string(u.Digest)), zap.Int64("size", size))
	known, _ := r.known.Get(u.Digest)
	known.badSize, known.badVersion = u.Info.Size, u.Info.Version
	r.known.Put(u.Digest, known, 1)
	return ErrDamaged
}

func (r *Record) rehash(ctx context.Context, d oci.Digest) (oci.Digest, int64, error) {
	o, err := r.store.Open(ctx, layout.BlobData(d), 0, -1)
	if err != nil {
		return "", 0, err
	}
	defer o.Close()
	h := d.Algorithm().New()
	n, err := io.Copy(h, o)
	return d.Algorithm().Digest(h.Sum(nil)), n, err
}
