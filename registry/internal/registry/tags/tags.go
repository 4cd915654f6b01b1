// Package tags knows the tags of repositories: which there are, what each points at, and which
// point at a manifest. It remembers what it has read, changes nothing, and has no rules.
// Errors are those of the store.
package tags

import (
	"context"
	"errors"

	"slipway/registry/internal/cache"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry/view"
	"slipway/registry/internal/storage"
)

// Index reads the tags of a store. All methods are safe for concurrent use.
type Index struct {
	store    *view.View
	pointers *cache.Cache[string, Pointer] // by key of the tag's link
}

// pointerCache is how many tags are remembered.
const pointerCache = 16 << 10

// New makes an index. It does no I/O.
func New(store *view.View) *Index {
	return &Index{
		store:    store,
		pointers: cache.New[string, Pointer](pointerCache),
	}
}

// repository is the tags of one repository.
type repository struct {
	*Index
	name oci.Name
}

// Pointer is what the link of a tag held when it had that version.
type Pointer struct {
	Digest  oci.Digest // "" if the link holds none
	Version string     // "" where the store cannot tell yet
	History []string   // keys of the tag's history, nil where they were not listed
}

// Read reads what a tag points at. The error is that of the store, or says that it is a bad
// link (see [IsBadLink]), whose version is returned.
func (x *Index) Read(ctx context.Context, name oci.Name, tag oci.Tag) (Pointer, error) {
	key := layout.TagCurrent(name, tag)
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

// IsBadLink says that a link was read and holds no digest.
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
