// Package tags reads the tags of repositories: their names, their targets, and the tags that point
// at a manifest. It caches what it reads, changes nothing, and has no rules. Errors are those of
// the store.
package tags

import (
	"context"
	"errors"

	"slipway/registry/internal/cache"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// Index reads the tags of a store. All methods are safe for concurrent use.
type Index struct {
	store    *tree.Store
	pointers *cache.Cache[string, Pointer] // by key of the tag's link
	lists    *cache.Cache[oci.Name, *list] // of repositories on files
}

// Bounds of what is remembered: a number of tags, and bytes of memory (about).
const (
	pointerCache = 16 << 10
	listCache    = 4 << 20
)

// New returns an index. It does no I/O.
func New(store *tree.Store) *Index {
	return &Index{
		store:    store,
		pointers: cache.New[string, Pointer](pointerCache),
		lists:    cache.New[oci.Name, *list](listCache),
	}
}

// repository is the tags of one repository.
type repository struct {
	*Index
	name oci.Name
}

// Pointer is the content of a tag's link at that version.
type Pointer struct {
	Digest  oci.Digest // "" if the link holds none
	Version string     // "" where the store cannot tell yet
	History []string   // keys of the tag's history, nil where they were not listed
}

// Read reads what a tag points at. The error is that of the store, or says that it is a bad
// link (see [IsBadLink]), whose version is returned.
func (x *Index) Read(ctx context.Context, name oci.Name, tag oci.Tag) (Pointer, error) {
	p, err := x.read(ctx, layout.TagCurrent(name, tag))
	if errors.Is(err, storage.ErrNotExist) {
		x.unlist(name, tag)
	}
	return p, err
}

func (x *Index) read(ctx context.Context, key string) (Pointer, error) {
	if p, ok := x.pointers.Get(key); ok {
		info, err := x.store.Stat(ctx, key)
		if err != nil {
			return Pointer{}, err
		}
		if p.Version == info.Version {
			return p, nil
		}
	}
	d, info, err := x.store.Link(ctx, key)
	p := Pointer{Version: info.Version, Digest: d}
	if err == nil && p.Version != "" {
		x.pointers.Put(key, p, 1)
	}
	return p, err
}

// IsBadLink reports whether a link was read and holds no digest.
func IsBadLink(err error) bool {
	return errors.Is(err, layout.ErrEmptyLink) || errors.Is(err, layout.ErrBadLink)
}

// Find returns the tag's target for a conditional delete: on a remote store by a listing, which shows the tag's
// history, too, and where a bad link is a pointer without a digest.
func (x *Index) Find(ctx context.Context, name oci.Name, tag oci.Tag) (Pointer, error) {
	if !x.store.Remote {
		p, err := x.Read(ctx, name, tag)
		if IsBadLink(err) {
			err = nil
		}
		return p, err
	}
	found, err := repository{x, name}.listPointers(ctx, layout.Tag(name, tag), anyDigest)
	p, ok := found[tag]
	if err == nil && !ok {
		err = storage.ErrNotExist
	}
	return p, err
}
