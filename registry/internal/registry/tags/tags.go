// Package tags knows the tags of repositories: which there are, what each points at, and which
// point at a manifest. It remembers what it has read, changes nothing, and has no rules.
// Errors are those of the store.
package tags

import (
	"context"
	"errors"
	"slices"

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
	lists    *cache.Cache[oci.Name, *list]
	names    *cache.Cache[oci.Name, []entry] // of large repositories of a remote store, in the order of listings
}

// Bounds of what is remembered: a number of tags, and bytes of memory (about).
const (
	pointerCache = 16 << 10
	listCache    = 4 << 20
	namesCache   = 4 << 20
)

// New makes an index. It does no I/O.
func New(store *view.View) *Index {
	return &Index{
		store:    store,
		pointers: cache.New[string, Pointer](pointerCache),
		lists:    cache.New[oci.Name, *list](listCache),
		names:    cache.New[oci.Name, []entry](namesCache),
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

// List lists at most n tags (all, if n < 0) strictly after last, sorted bytewise, and describes what
// the next page begins after, "" if this is the last one. Only what has a link is a tag. Nobody
// changes the slice.
func (x *Index) List(ctx context.Context, name oci.Name, n int, last string) (tags []string, next string, err error) {
	switch r := (repository{x, name}); {
	case n == 0:
		return []string{}, "", nil
	case x.store.Remote:
		return r.listRemote(ctx, n, last)
	default:
		all, err := r.current(ctx)
		if err != nil {
			return nil, "", err
		}
		tags, next = Page(all.names, n, last)
		return tags, next, nil
	}
}

// Page is the page of a sorted list that List returns.
func Page(all []string, n int, last string) (tags []string, next string) {
	if last != "" {
		i, found := slices.BinarySearch(all, last)
		if found {
			i++
		}
		all = all[i:]
	}
	if n < 0 || n >= len(all) {
		return all, ""
	}
	if n > 0 {
		next = all[n-1]
	}
	return all[:n:n], next
}

// Forget has the tags of the repository listed again if tag, which is not there, was listed: its
// deletion may have been interrupted before its history was gone.
func (x *Index) Forget(name oci.Name, tag oci.Tag) {
	if l, ok := x.lists.Get(name); ok {
		if _, listed := slices.BinarySearch(l.names, string(tag)); listed {
			x.lists.Forget(name)
		}
	}
	kept, _ := x.names.Get(name)
	if slices.Contains(kept, entry{string(tag) + "/", true}) {
		x.names.Forget(name)
	}
}

// list is the tags of a repository that were seen to point at something. It is shared: nobody
// changes it.
type list struct {
	from    *view.Listing
	names   []string // have a link
	pending []string // had none yet
}

// current brings the remembered list up to date. A tag's history exists before its link does,
// so names without a link are looked at each time.
func (r repository) current(ctx context.Context) (*list, error) {
	from, err := r.store.Below(ctx, layout.Tags(r.name))
	if err != nil {
		return nil, err
	}
	if len(from.Names) == 0 {
		return &list{names: []string{}}, nil
	}
	old, _ := r.lists.Get(r.name)
	if old == nil {
		old = &list{}
	}
	if old.from == from && len(old.pending) == 0 {
		return old, nil
	}
	now, err := r.look(ctx, from, old.names)
	if err == nil {
		r.lists.Put(r.name, now, int64(200+24*len(now.names)))
	}
	return now, err
}

// look looks which of the names are tags. Those in seen, which is sorted, are known to be.
func (r repository) look(ctx context.Context, from *view.Listing, seen []string) (*list, error) {
	l := &list{from: from, names: make([]string, 0, len(from.Names))}
	for _, name := range from.Names {
		for len(seen) > 0 && seen[0] < name {
			seen = seen[1:]
		}
		if len(seen) > 0 && seen[0] == name {
			l.names = append(l.names, name)
			continue
		}
		tag, err := oci.ParseTag(name)
		if err != nil {
			continue
		}
		switch _, err := r.store.Stat(ctx, layout.TagCurrent(r.name, tag)); {
		case err == nil:
			l.names = append(l.names, name)
		case errors.Is(err, storage.ErrNotExist):
			l.pending = append(l.pending, name)
		default:
			return nil, err
		}
	}
	return l, nil
}
