package registry

import (
	"bytes"
	"context"
	"encoding"
	"fmt"
	"io"

	"slipway/registry/internal/oci"
)

// rewind forgets the running hash and begins one of the algorithm.
func (u *Upload) rewind(alg oci.Algorithm) {
	if alg == "" {
		alg = oci.SHA256
	}
	u.alg, u.hash, u.hashed = alg, alg.New(), 0
}

// restore takes a running hash up where snapshot left it.
func (u *Upload) restore(state []byte) bool {
	name, inner, ok := bytes.Cut(state, []byte(":"))
	alg, err := oci.ParseAlgorithm(string(name))
	if !ok || err != nil {
		return false
	}
	h := alg.New()
	if h, ok := h.(encoding.BinaryUnmarshaler); !ok || h.UnmarshalBinary(inner) != nil {
		return false
	}
	u.alg, u.hash, u.hashed = alg, h, u.size
	return true
}

// snapshot returns the running hash if it has all bytes, else nil.
func (u *Upload) snapshot() []byte {
	h, ok := u.hash.(encoding.BinaryMarshaler)
	if !ok || u.hashed != u.size {
		return nil
	}
	state, err := h.MarshalBinary()
	if err != nil {
		return nil
	}
	return append([]byte(u.alg+":"), state...)
}

// verify returns nil if the bytes have the digest. It reads the bytes that were not hashed on arrival.
func (u *Upload) verify(ctx context.Context, d oci.Digest) error {
	if u.alg != d.Algorithm() {
		u.rewind(d.Algorithm())
	}
	if err := u.catchUp(ctx); err != nil {
		return err
	}
	if got := u.alg.Digest(u.hash.Sum(nil)); got != d {
		return oci.Explain(oci.CodeDigestInvalid, fmt.Sprintf("the content has the digest %s, not %s: it changed or was damaged on its way; push it again", got, d))
	}
	return nil
}

// catchUp hashes the bytes that are not hashed yet. If the client gives up meanwhile, the
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
