package index

import (
	"cmp"
	"slices"

	bolt "go.etcd.io/bbolt"

	"slipway/registry/internal/oci"
)

// Query selects repositories.
type Query struct {
	Visible func(oci.Name) bool // nil = all are
	Sort    string              // by name unless it is BySize or ByOwn
	Limit   int                 // 0 = all
}

// Orders of lists: the largest first.
const (
	BySize = "size"
	ByOwn  = "own"
)

// Page is a part of a list.
type Page struct {
	Repositories []Repository
	Total        int   // that the query selects
	Hidden       int   // that aren't visible
	Bytes        int64 // of them; what several have counts in each
}

// Repositories lists repositories. It reads the whole index once, and no storage.
func (x *Index) Repositories(q Query) (p Page, err error) {
	var all []*Repository
	err = x.view(func(tx *bolt.Tx) error {
		return tx.Bucket(repositoriesBucket).ForEach(func(name, v []byte) error {
			r := decodeRepository(name, v)
			switch {
			case r.id == 0:
			case q.Visible != nil && !q.Visible(r.Name):
				p.Hidden++
			default:
				all = append(all, &r.Repository)
				p.Bytes += r.Bytes
			}
			return nil
		})
	})
	p.Total = len(all)
	if order := orders[q.Sort]; order != nil {
		slices.SortStableFunc(all, order)
	}
	if q.Limit > 0 {
		all = all[:min(q.Limit, len(all))]
	}
	for _, r := range all {
		p.Repositories = append(p.Repositories, *r)
	}
	return p, err
}

var orders = map[string]func(a, b *Repository) int{
	BySize: func(a, b *Repository) int { return cmp.Compare(b.Bytes, a.Bytes) },
	ByOwn:  func(a, b *Repository) int { return cmp.Compare(b.Own, a.Own) },
}

// Stored returns the bytes of all repositories; what several have counts once. It reads the whole index.
func (x *Index) Stored() (bytes int64, err error) {
	err = x.view(func(tx *bolt.Tx) error {
		return tx.Bucket(blobsBucket).ForEach(func(_, v []byte) error {
			if b, ok := decodeBlob(v); ok && b.count > 0 {
				bytes += b.size
			}
			return nil
		})
	})
	return bytes, err
}

// Repository returns what is known of one; ok is false if nothing is.
func (x *Index) Repository(name oci.Name) (r Repository, ok bool, err error) {
	err = x.view(func(tx *bolt.Tx) error {
		found := decodeRepository([]byte(name), tx.Bucket(repositoriesBucket).Get([]byte(name)))
		r, ok = found.Repository, found.id != 0
		return nil
	})
	return r, ok, err
}

// size returns the size of a blob or manifest that some repository had when it was read.
func (x *Index) size(k key) (size int64, ok bool) {
	_ = x.view(func(tx *bolt.Tx) error {
		var b blob
		b, ok = decodeBlob(tx.Bucket(blobsBucket).Get(k[:]))
		size = b.size
		return nil
	})
	return size, ok
}
