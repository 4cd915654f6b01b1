package tree

import (
	"context"
	"errors"
	"slices"

	"slipway/registry/internal/cache"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// Store is a store with a cache of its listings. All methods are safe for concurrent use.
type Store struct {
	storage.Store
	// Remote says that the store is reached by a network: requests cost time rather than work.
	Remote bool

	listings *cache.Cache[string, *Listing]
}

// listingCache bounds the names that are remembered, in bytes of memory (about).
const listingCache = 8 << 20

// NewStore returns a Store without a listing in its cache. It does no I/O.
func NewStore(s storage.Store, remote bool) *Store {
	return &Store{Store: s, Remote: remote, listings: cache.New[string, *Listing](listingCache)}
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
func (s *Store) Below(ctx context.Context, prefix string) (*Listing, error) {
	if kept, ok := s.listings.Get(prefix); ok {
		info, err := s.Stat(ctx, prefix+"/")
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
	for info, err := range s.List(ctx, prefix, storage.ListOptions{Names: true, Version: &l.version}) {
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
		s.listings.Put(prefix, l, weight)
	}
	return l, nil
}

// Keys lists all objects below prefix.
func (s *Store) Keys(ctx context.Context, prefix string) (keys []string, err error) {
	for info, err := range s.List(ctx, prefix, storage.ListOptions{Flat: true, Names: true}) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, info.Key)
	}
	return keys, nil
}

// Each is storage.Each, with one call after the other if the store isn't remote.
func (s *Store) Each(n int, f func(i int) error) error {
	if !s.Remote {
		return storage.Each(n, 1, f)
	}
	return storage.Each(n, storage.AtOnce, f)
}

// Link reads a link. Errors are those of the store and of layout.ParseLink; with the latter,
// info is that of the link.
func (s *Store) Link(ctx context.Context, key string) (oci.Digest, storage.Info, error) {
	l, _ := ReadLink(ctx, s.Store, key, "")
	return l.Target, l.Info, l.Err
}
