// Package referrers knows which manifests of a repository have which subject: it remembers what
// it has read, and reads only what is new.
package referrers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"slipway/registry/internal/cache"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// maxBytes bounds what is remembered, in bytes of memory (about). A repository with more, some
// 300,000 manifests, is read again for each call.
const maxBytes = 32 << 20

// SubjectOf reads the subject of a stored manifest, "" if it has none, and the manifests in it if it is an index whose
// children count. With ErrNotExist, it is asked again by the next call.
type SubjectOf func(ctx context.Context, d oci.Digest) (subject oci.Digest, children []oci.Digest, err error)

// Index finds manifests by their subjects. All methods are safe for concurrent use.
type Index struct {
	store     *tree.Store
	subjectOf SubjectOf

	finding      sync.Mutex // held while a repository is looked up
	repositories *cache.Cache[oci.Name, *repository]
}

// New makes an index. It does no I/O.
func New(store *tree.Store, subjectOf SubjectOf) *Index {
	return &Index{store: store, subjectOf: subjectOf, repositories: cache.New[oci.Name, *repository](maxBytes)}
}

// Of returns the manifests of a repository whose subject is the given one, sorted; some of them
// may be gone. The slice is the caller's only to read. Calls at the same time wait for the first
// one to read what is new. Errors are those of the store and of SubjectOf.
func (x *Index) Of(ctx context.Context, name oci.Name, subject oci.Digest) ([]oci.Digest, error) {
	return x.find(ctx, name, link{subject, false})
}

// Containing is Of for the indexes of which the manifest is a child.
func (x *Index) Containing(ctx context.Context, name oci.Name, child oci.Digest) ([]oci.Digest, error) {
	return x.find(ctx, name, link{child, true})
}

// link is the target of a reference from one manifest to another.
type link struct {
	to    oci.Digest
	child bool // by a list of manifests; false = by subject
}

// OfEach is Of for several subjects, in one step.
func (x *Index) OfEach(ctx context.Context, name oci.Name, subjects []oci.Digest) (map[oci.Digest][]oci.Digest, error) {
	found := map[oci.Digest][]oci.Digest{}
	err := x.look(ctx, name, func(from map[link][]oci.Digest) {
		for _, d := range subjects {
			found[d] = from[link{d, false}]
		}
	})
	return found, err
}

func (x *Index) find(ctx context.Context, name oci.Name, to link) (found []oci.Digest, err error) {
	err = x.look(ctx, name, func(from map[link][]oci.Digest) { found = from[to] })
	return found, err
}

// look calls f with what refers to what in a repository, as it is now.
func (x *Index) look(ctx context.Context, name oci.Name, f func(from map[link][]oci.Digest)) error {
	r := x.repository(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	changed, err := r.refresh(ctx)
	if changed {
		x.repositories.Put(r.name, r, r.weight())
	} else if len(r.read) == 0 {
		x.repositories.Forget(name) // nothing was read, and anybody may ask for what does not exist
	}
	f(r.from)
	return err
}

// repository is the one that is remembered, or a new one.
func (x *Index) repository(name oci.Name) *repository {
	x.finding.Lock()
	defer x.finding.Unlock()
	r, ok := x.repositories.Get(name)
	if !ok {
		r = &repository{
			Index: x, name: oci.Name(strings.Clone(string(name))),
			read: map[oci.Algorithm]*tree.Listing{}, from: map[link][]oci.Digest{},
		}
		x.repositories.Put(r.name, r, 0)
	}
	return r
}

// repository holds the subjects of the manifests of a repository. The subject of a digest
// never changes, so only new digests are read.
type repository struct {
	*Index
	name oci.Name

	mu      sync.Mutex
	read    map[oci.Algorithm]*tree.Listing
	unread  []oci.Digest // revisions whose manifest was not there
	from    map[link][]oci.Digest
	entries int
}

var noListing = &tree.Listing{}

// refresh reads what is new in the store. What it cannot read now it reads the
// next time.
func (r *repository) refresh(ctx context.Context) (changed bool, err error) {
	retry := r.unread
	r.unread = nil
	if err := r.add(ctx, retry); err != nil {
		return false, err
	}
	for _, alg := range tree.Algorithms() {
		now, err := r.store.Below(ctx, layout.Revisions(r.name, alg))
		if err != nil {
			return changed, err
		}
		if len(now.Names) == 0 {
			now = noListing
		}
		before := r.read[alg]
		if before == nil {
			before = noListing
		}
		if before == now {
			continue
		}
		r.read[alg], changed = now, true
		r.forget(digests(alg, missingFrom(before.Names, now.Names)))
		if err := r.add(ctx, digests(alg, missingFrom(now.Names, before.Names))); err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// add reads the manifests. What it has read when it fails counts, and the rest is
// read the next time.
func (r *repository) add(ctx context.Context, ds []oci.Digest) error {
	found := map[link][]oci.Digest{}
	defer r.take(found)
	for i, d := range ds {
		subject, children, err := r.subjectOf(ctx, d)
		switch {
		case errors.Is(err, storage.ErrNotExist):
			r.unread = append(r.unread, d)
		case err != nil:
			r.unread = append(r.unread, ds[i:]...)
			return err
		}
		if subject != "" {
			found[link{subject, false}] = append(found[link{subject, false}], d)
		}
		for _, c := range children {
			found[link{c, true}] = append(found[link{c, true}], d)
		}
	}
	return nil
}

// take adds manifests by what they refer to. Lists that were handed out are not
// touched.
func (r *repository) take(found map[link][]oci.Digest) {
	for to, more := range found {
		all := append(slices.Clip(r.from[to]), more...)
		slices.Sort(all)
		r.from[to] = slices.Compact(all)
		r.entries += len(more)
	}
}

// forget drops manifests that have vanished.
func (r *repository) forget(ds []oci.Digest) {
	if len(ds) == 0 {
		return
	}
	gone := make(map[oci.Digest]bool, len(ds))
	for _, d := range ds {
		gone[d] = true
	}
	r.unread = slices.DeleteFunc(r.unread, func(d oci.Digest) bool { return gone[d] })
	for to, list := range r.from {
		left := slices.DeleteFunc(slices.Clone(list), func(d oci.Digest) bool { return gone[d] })
		r.from[to] = left
		if len(left) == 0 {
			delete(r.from, to)
		}
	}
}

func (r *repository) weight() int64 {
	w := 512 + 300*int64(r.entries) + 100*int64(len(r.unread))
	for _, l := range r.read {
		w += 100 * int64(len(l.Names))
	}
	return w
}

// missingFrom returns the names that aren't in other; both are sorted.
func missingFrom(names, other []string) []string {
	var missing []string
	for _, name := range names {
		for len(other) > 0 && other[0] < name {
			other = other[1:]
		}
		if len(other) == 0 || other[0] != name {
			missing = append(missing, name)
		}
	}
	return missing
}

func digests(alg oci.Algorithm, hex []string) []oci.Digest {
	var ds []oci.Digest
	for _, h := range hex {
		if d, err := oci.ParseDigest(string(alg) + ":" + h); err == nil {
			ds = append(ds, d)
		}
	}
	return ds
}
