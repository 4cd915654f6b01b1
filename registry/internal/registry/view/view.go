// Package view is how the rules see a store: listings are remembered while nothing has changed,
// and where the store is reached by a network, independent requests are sent at the same time.
package view

import (
	"context"
	"errors"
	"slices"

	"slipway/registry/internal/cache"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// View is a store with a cache of its listings. All methods are safe for concurrent use.
type View struct {
	storage.Store
	// Remote says that the store is reached by a network: requests cost time rather than work.
	Remote bool

	listings *cache.Cache[string, *Listing]
}

// listingCache bounds the names that are remembered, in bytes of memory (about).
const listingCache = 8 << 20

// New makes a view. It does no I/O.
func New(s storage.Store, remote bool) *View {
	return &View{Store: s, Remote: remote, listings: cache.New[string, *Listing](listingCache)}
}

// Listing is the names of the prefixes directly below a prefix, sorted bytewise. It is shared:
// it must not be modified.
type Listing struct {
	Names   []string
	version string
}

// Has reports whether the name is listed.
func (l *Listing) Has(name string) bool {
	_, has := slices.BinarySearch(l.Names, name)
	return has
}

// Below lists the prefixes directly below prefix; none if there is nothing. While nothing
// changes there, and the store can tell, the same pointer comes back.
func (v *View) Below(ctx context.Context, prefix string) (*Listing, error) {
	if kept, ok := v.listings.Get(prefix); ok {
		info, err := v.Stat(ctx, prefix+"/")
		if errors.Is(err, storage.ErrNotExist) {
			return &Listing{}, nil
		}
		if err != nil {
			return nil, err
		}
		if kept.version == info.Version {
			return kept, nil
		}
	}
	l := &Listing{}
	weight := int64(len(prefix)) + 200
	// The version comes first: a change while the listing is read makes the next call read again.
	for info, err := range v.List(ctx, prefix, storage.ListOptions{Names: true, Version: &l.version}) {
		if err != nil {
			return nil, err
		}
		if info.Prefix {
			name := info.Key[len(prefix)+1 : len(info.Key)-1]
			l.Names = append(l.Names, name)
			weight += int64(len(name)) + 24
		}
	}
	slices.Sort(l.Names) // the store sorts "a-b/" before "a/"
	if l.version != "" {
		v.listings.Put(prefix, l, weight)
	}
	return l, nil
}

// Keys lists all objects below prefix.
func (v *View) Keys(ctx context.Context, prefix string) (keys []string, err error) {
	for info, err := range v.List(ctx, prefix, storage.ListOptions{Flat: true, Names: true}) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, info.Key)
	}
	return keys, nil
}

// Link reads a link. Errors are those of the store and of layout.ParseLink; with the latter,
// info is that of the link.
func (v *View) Link(ctx context.Context, key string) (oci.Digest, storage.Info, error) {
	l, _ := tree.ReadLink(ctx, v.Store, key, "")
	return l.Target, l.Info, l.Err
}
