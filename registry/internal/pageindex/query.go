package pageindex

import (
	"cmp"
	"slices"

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

// Repositories lists repositories. It reads no storage.
func (x *Index) Repositories(q Query) (p Page) {
	x.mu.Lock()
	all := make([]Repository, 0, len(x.contents.repositories))
	for _, r := range x.contents.repositories {
		all = append(all, r.Repository)
	}
	x.mu.Unlock()
	if q.Visible != nil {
		all = slices.DeleteFunc(all, func(r Repository) bool { return !q.Visible(r.Name) })
		p.Hidden = cap(all) - len(all)
	}
	for i := range all {
		p.Bytes += all[i].Bytes
	}
	slices.SortFunc(all, func(a, b Repository) int {
		switch q.Sort {
		case BySize:
			return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name))
		case ByOwn:
			return cmp.Or(cmp.Compare(b.Own, a.Own), cmp.Compare(a.Name, b.Name))
		default:
			return cmp.Compare(a.Name, b.Name)
		}
	})
	p.Repositories, p.Total = all, len(all)
	if q.Limit > 0 {
		p.Repositories = all[:min(q.Limit, len(all))]
	}
	return p
}

// Stored returns the bytes of all repositories; what several have counts once.
func (x *Index) Stored() (bytes int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, b := range x.contents.blobs {
		bytes += b.size
	}
	return bytes
}

// Repository returns what is known of one; ok is false if nothing is.
func (x *Index) Repository(name oci.Name) (r Repository, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if found := x.contents.repositories[name]; found != nil {
		return found.Repository, true
	}
	return r, false
}

// size returns the size of a blob or manifest that some repository had when it was read.
func (x *Index) size(k key) (size int64, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	b, ok := x.contents.blobs[k]
	return b.size, ok
}
