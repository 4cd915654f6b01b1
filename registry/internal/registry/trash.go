package registry

import (
	"context"
	"iter"
	"slices"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry/tags"
	"slipway/registry/internal/storage"
)

// MaxDeletions is the number of deletions that a read-only request reads: retention may make one for each
// tag, and each is an object.
const MaxDeletions = 1000

// maxDeletedNames is the number of tags and manifests after which a read-only request lists no further deletion.
const maxDeletedNames = 100_000

// recordsAtOnce bounds the bytes of records that are read together, unless a single one is larger.
const recordsAtOnce = 1 << 20

// Deletion describes what one deletion removed.
type Deletion = layout.Deletion

// Deletions returns the last limit deletions of which something can be restored, the latest first; 0 stands for all. With
// a limit the list may end earlier, after 100,000 names or MaxDeletions deletions. The repository itself need not exist any more.
func (r Repository) Deletions(ctx context.Context, limit int) ([]Deletion, error) {
	list, names, reads := []Deletion{}, 0, MaxDeletions
	if limit == 0 {
		reads = 0 // all
	}
	for d, err := range r.deletions(ctx, reads) {
		inPlace := false
		if err == nil {
			inPlace, err = r.inPlace(ctx, d)
		}
		if err != nil {
			return nil, err
		}
		if !inPlace {
			list = append(list, *d)
		}
		if names += len(d.Tags) + len(d.Manifests); limit > 0 && (len(list) == limit || names >= maxDeletedNames) {
			break
		}
	}
	return list, nil
}

// deletions yields the records of the last limit deletions whose time isn't over, the latest first; 0 stands for all.
func (r Repository) deletions(ctx context.Context, limit int) iter.Seq2[*Deletion, error] {
	return func(yield func(*Deletion, error) bool) {
		now := r.reg.now()
		var found []tree.Deletion
		for d, err := range tree.Deletions(ctx, r.reg.store, r.name) {
			if err != nil {
				yield(nil, err)
				return
			}
			if now.Before(d.Until) {
				found = append(found, d)
			}
		}
		if limit > 0 {
			found = found[max(0, len(found)-limit):]
		}
		slices.Reverse(found)
		for len(found) > 0 {
			n, size := 1, found[0].Size
			for r.reg.store.Remote && n < min(len(found), storage.AtOnce) && size+found[n].Size <= recordsAtOnce {
				size += found[n].Size
				n++
			}
			some := make([]Deletion, n)
			err := r.reg.store.Each(n, func(i int) (err error) {
				some[i], err = found[i].Read(ctx, r.reg.store)
				return err
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range some {
				if some[i].ID != "" && !yield(&some[i], nil) {
					return
				}
			}
			found = found[n:]
		}
	}
}

// inPlace reports whether the repository has all of a deletion: it was restored or pushed
// again, or the deletion was interrupted before it began.
func (r Repository) inPlace(ctx context.Context, d *layout.Deletion) (bool, error) {
	for _, m := range d.Manifests {
		if err := r.revision(ctx, m); err != nil {
			return false, unlessAbsent(err)
		}
	}
	for tag, target := range d.Tags {
		p, err := r.reg.tags.Read(ctx, r.name, tag)
		if tags.IsBadLink(err) || absent(err) {
			return false, nil
		}
		if err != nil || p.Digest != target {
			return false, err
		}
	}
	return true, nil
}

// Deleted returns at most limit names of repositories from which something was deleted that may still
// be restorable, by name. The repositories need not exist any more.
func (r *Registry) Deleted(ctx context.Context, limit int, visible func(oci.Name) bool) (names []oci.Name, err error) {
	for name, err := range tree.Deleted(ctx, r.store) {
		if err != nil {
			return nil, err
		}
		if visible != nil && !visible(name) {
			continue
		}
		if names = append(names, name); len(names) == limit {
			break
		}
	}
	return names, nil
}
