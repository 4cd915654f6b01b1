// Package tree reads the tree on the storage: in full for collection, retention, verification and usage,
// and by name, with a cache of listings, for the rules. It changes nothing.
package tree

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// Algorithms are those under which anything is stored.
func Algorithms() []oci.Algorithm { return []oci.Algorithm{oci.SHA256, oci.SHA384, oci.SHA512} }

// ErrDamaged is inside the error for bytes that are not those of their digest,
// ErrNotManifest inside that for bytes that are no manifest.
var (
	ErrDamaged     = errors.New("the bytes are not those of the digest")
	ErrNotManifest = errors.New("not a manifest")
)

// Repositories yields the repositories, those without manifests too. One that
// vanishes meanwhile may be among them. What cannot be listed is an error, with
// the name of the repository in which it lies, and the walk goes on.
func Repositories(ctx context.Context, s storage.Store) iter.Seq2[oci.Name, error] {
	w := walk{s, layout.Repositories, func(name oci.Name) bool {
		_, err := oci.ParseName(string(name))
		return err == nil
	}}
	return func(yield func(oci.Name, error) bool) { w.below(ctx, "", yield) }
}

// Everything also yields the repositories whose names only distribution takes and
// no request here can have: what they need must stay.
func Everything(ctx context.Context, s storage.Store) iter.Seq2[oci.Name, error] {
	w := walk{s, layout.Repositories, possible}
	return func(yield func(oci.Name, error) bool) { w.below(ctx, "", yield) }
}

// Below yields the repository of that name and those whose names go on behind it with
// a slash, as Everything does.
func Below(ctx context.Context, s storage.Store, name oci.Name) iter.Seq2[oci.Name, error] {
	w := walk{s, layout.Repositories, possible}
	return func(yield func(oci.Name, error) bool) { w.below(ctx, name, yield) }
}

// possible reports whether distribution could have such a repository.
func possible(name oci.Name) bool { return storage.ValidKey(layout.Repository(name)) }

// walk finds the repositories that have something below a root.
type walk struct {
	store  storage.Store
	root   string
	wanted func(oci.Name) bool
}

// below yields the repository of that name and those further down. It reports whether to go on.
func (w walk) below(ctx context.Context, name oci.Name, yield func(oci.Name, error) bool) bool {
	prefix, private := w.root, false
	if name != "" {
		prefix += "/" + string(name)
	}
	var children []oci.Name
	for child, err := range names(ctx, w.store, prefix) {
		switch {
		case err != nil:
			return yield(name, err)
		case layout.Private(child):
			private = true
		default:
			if child := join(name, child); w.wanted(child) {
				children = append(children, child)
			}
		}
	}
	if private && name != "" && !yield(name, nil) {
		return false
	}
	for _, child := range children {
		if ctx.Err() != nil {
			return yield(name, ctx.Err())
		}
		if !w.below(ctx, child, yield) {
			return false
		}
	}
	return true
}

// names yields the names of the prefixes one level below prefix.
func names(ctx context.Context, s storage.Store, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for info, err := range s.List(ctx, prefix, storage.ListOptions{Names: true}) {
			if err != nil {
				yield("", err)
				return
			}
			if info.Prefix && !yield(strings.TrimSuffix(info.Key[len(prefix)+1:], "/"), nil) {
				return
			}
		}
	}
}

func join(name oci.Name, child string) oci.Name {
	if name == "" {
		return oci.Name(child)
	}
	return name + "/" + oci.Name(child)
}

// MaxManifest is more bytes than any registry takes for a manifest.
const MaxManifest = 64 << 20

// Manifest reads a stored manifest. Errors are those of the store, or have
// ErrDamaged or ErrNotManifest inside.
func Manifest(ctx context.Context, s storage.Store, digest oci.Digest) (m *oci.Manifest, size int64, err error) {
	body, err := manifestBytes(ctx, s, digest)
	if err != nil {
		return nil, 0, err
	}
	if m, err = oci.ReadManifest(body); err != nil {
		return nil, 0, fmt.Errorf("%w: %s: %w", ErrNotManifest, digest, err)
	}
	return m, int64(len(body)), nil
}

func manifestBytes(ctx context.Context, s storage.Store, digest oci.Digest) ([]byte, error) {
	body, _, err := storage.Read(ctx, s, layout.BlobData(digest), MaxManifest)
	if err == nil && digest.Algorithm().FromBytes(body) != digest {
		err = fmt.Errorf("%w: %s", ErrDamaged, digest)
	}
	return body, err
}

// Blob is stored bytes, whatever has them.
type Blob struct {
	Digest oci.Digest
	storage.Info
}

// Blobs yields what is stored under digests, strictly after one, sorted by algorithm
// and then by digest.
func Blobs(ctx context.Context, s storage.Store, after oci.Digest) iter.Seq2[Blob, error] {
	return func(yield func(Blob, error) bool) {
		for _, alg := range Algorithms() {
			o := storage.ListOptions{Flat: true}
			if after != "" {
				o.After = layout.BlobData(after) // behind it is all of later algorithms, too
			}
			prefix := layout.Blobs + "/" + string(alg)
			for info, err := range s.List(ctx, prefix, o) {
				if err != nil {
					yield(Blob{}, err)
					return
				}
				digest, ok := blobDigest(alg, info.Key[len(prefix):])
				if ok && !yield(Blob{digest, info}, nil) {
					return
				}
			}
		}
	}
}

// blobDigest reads "/<first 2 hex>/<hex>/data".
func blobDigest(alg oci.Algorithm, rest string) (oci.Digest, bool) {
	parts := strings.Split(rest, "/")
	if len(parts) != 4 || parts[3] != "data" {
		return "", false
	}
	digest, err := oci.ParseDigest(string(alg) + ":" + parts[2])
	return digest, err == nil && strings.HasPrefix(parts[2], parts[1]) && len(parts[1]) == 2
}
