package index

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"slipway/registry/internal/oci"
)

// Repository is the entry of a repository in the index.
type Repository struct {
	Name      oci.Name
	Tags      int
	Manifests int
	Blobs     int       // and manifests, each once
	Bytes     int64     // of them
	Own       int64     // of those that no other repository has
	Pushed    time.Time // of the storage's last write to a tag; zero = never
	Pulled    time.Time // when a manifest was last pulled; zero = unknown
	Read      time.Time // when the storage was read
}

// repositoryRecord is a Repository in the file: numbers alone, because lists read all of them.
type repositoryRecord struct {
	Repository
	id uint64 // of the repository in blobs, never 0
}

const recordSize = 9 * 8

func (r *repositoryRecord) encode() []byte {
	b := make([]byte, 0, recordSize)
	for _, n := range []uint64{
		r.id, uint64(r.Tags), uint64(r.Manifests), uint64(r.Blobs), uint64(r.Bytes), uint64(r.Own), nanos(r.Pushed), nanos(r.Pulled), nanos(r.Read),
	} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

func decodeRepository(name, b []byte) (r repositoryRecord) {
	if len(b) != recordSize {
		return r
	}
	n := func(i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }
	r.id = n(0)
	r.Name, r.Tags, r.Manifests, r.Blobs = oci.Name(name), int(n(1)), int(n(2)), int(n(3))
	r.Bytes, r.Own, r.Pushed, r.Pulled, r.Read = int64(n(4)), int64(n(5)), date(n(6)), date(n(7)), date(n(8))
	return r
}

func nanos(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixNano())
}

func date(n uint64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(n)).UTC()
}

// key stands for a digest.
type key [sha256.Size]byte

func keyOf(d oci.Digest) key { return sha256.Sum256([]byte(d)) }

// blob counts the repositories that have some bytes. With one of them, owners is its ID.
type blob struct {
	size   int64
	owners uint64 // the IDs of the repositories that have it, by exclusive or
	count  uint32
}

func (b *blob) encode() []byte {
	v := binary.BigEndian.AppendUint64(make([]byte, 0, 20), uint64(b.size))
	v = binary.BigEndian.AppendUint64(v, b.owners)
	return binary.BigEndian.AppendUint32(v, b.count)
}

func decodeBlob(v []byte) (b blob, ok bool) {
	if len(v) != 20 {
		return b, false
	}
	return blob{int64(binary.BigEndian.Uint64(v)), binary.BigEndian.Uint64(v[8:]), binary.BigEndian.Uint32(v[16:])}, true
}

var errForeign = errors.New("the index holds something foreign")
