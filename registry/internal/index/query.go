package index

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"slipway/registry/internal/oci"
)

// Orders of lists. Those by size and date begin with the largest and the latest.
const (
	ByName   = "name"
	BySize   = "size"
	ByOwn    = "own"
	ByPushed = "pushed"
	ByPulled = "pulled"
)

// Query selects repositories.
type Query struct {
	Prefix  string              // their names begin with it
	Words   []string            // their names contain all, in lower case
	Visible func(oci.Name) bool // nil = all are
	Sort    string              // ByName unless it is another order
	Offset  int
	Limit   int // 0 = all
}

// Page is a part of a list.
type Page struct {
	Repositories []Repository
	Total        int   // that the query selects
	Bytes        int64 // of them; what several have counts in each
}

// Repositories lists repositories. It reads the whole index once, and no storage.
func (x *Index) Repositories(q Query) (p Page, err error) {
	var all []*Repository
	err = x.db.View(func(tx *bolt.Tx) error {
		c := tx.Bucket(repositoriesBucket).Cursor()
		for name, v := c.Seek([]byte(q.Prefix)); name != nil && bytes.HasPrefix(name, []byte(q.Prefix)); name, v = c.Next() {
			if !containsAll(name, q.Words) {
				continue
			}
			r := decodeRepository(name, v)
			if r.id != 0 && (q.Visible == nil || q.Visible(r.Name)) {
				all = append(all, &r.Repository)
				p.Bytes += r.Bytes
			}
		}
		return nil
	})
	p.Total = len(all)
	if order := orders[q.Sort]; order != nil {
		slices.SortStableFunc(all, order)
	}
	all = all[min(max(q.Offset, 0), p.Total):]
	if q.Limit > 0 {
		all = all[:min(q.Limit, len(all))]
	}
	for _, r := range all {
		p.Repositories = append(p.Repositories, *r)
	}
	return p, err
}

func containsAll(name []byte, words []string) bool {
	for _, word := range words {
		if !bytes.Contains(name, []byte(word)) {
			return false
		}
	}
	return true
}

var orders = map[string]func(a, b *Repository) int{
	BySize:   func(a, b *Repository) int { return cmp.Compare(b.Bytes, a.Bytes) },
	ByOwn:    func(a, b *Repository) int { return cmp.Compare(b.Own, a.Own) },
	ByPushed: func(a, b *Repository) int { return b.Pushed.Compare(a.Pushed) },
	ByPulled: func(a, b *Repository) int { return b.Pulled.Compare(a.Pulled) },
}

// Repository returns what is known of one; ok is false if nothing is.
func (x *Index) Repository(name oci.Name) (r Repository, ok bool, err error) {
	err = x.db.View(func(tx *bolt.Tx) error {
		found := decodeRepository([]byte(name), tx.Bucket(repositoriesBucket).Get([]byte(name)))
		r, ok = found.Repository, found.id != 0
		return nil
	})
	return r, ok, err
}

// Tags returns the tags of a repository whose names contain the text, in the order: ByName, BySize,
// ByPushed or ByPulled.
func (x *Index) Tags(name oci.Name, text, order string) (all []Tag, err error) {
	err = x.db.View(func(tx *bolt.Tx) error {
		prefix := tagsOf(name)
		c := tx.Bucket(tagsBucket).Cursor()
		for k, v := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
			if !strings.Contains(string(k[len(prefix):]), text) {
				continue
			}
			t, err := decode[Tag](v)
			if err != nil {
				return err
			}
			all = append(all, t)
		}
		return nil
	})
	switch order {
	case BySize:
		slices.SortStableFunc(all, func(a, b Tag) int { return cmp.Compare(b.Size, a.Size) })
	case ByPushed:
		slices.SortStableFunc(all, func(a, b Tag) int { return b.Pushed.Compare(a.Pushed) })
	case ByPulled:
		slices.SortStableFunc(all, func(a, b Tag) int { return b.Pulled.Compare(a.Pulled) })
	}
	return all, err
}

// Size returns the size of a blob or manifest that some repository had when it was read.
func (x *Index) Size(d oci.Digest) (size int64, ok bool) {
	k := keyOf(d)
	_ = x.db.View(func(tx *bolt.Tx) error {
		var b blob
		b, ok = decodeBlob(tx.Bucket(blobsBucket).Get(k[:]))
		size = b.size
		return nil
	})
	return size, ok
}

// manifest returns a manifest that was read before.
func (x *Index) manifest(k key) (m manifest, ok bool) {
	_ = x.db.View(func(tx *bolt.Tx) error {
		v := tx.Bucket(manifestsBucket).Get(k[:])
		var err error
		if m, err = decode[manifest](v); v != nil && err == nil {
			ok = true
		}
		return nil
	})
	return m, ok
}
