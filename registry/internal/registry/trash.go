package registry

import (
	"context"
	"errors"
	"slices"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry/tags"
	"slipway/registry/internal/storage"
)

// deletion writes the record of one deletion. A nil *deletion records nothing.
type deletion struct {
	repo      Repository
	head      layout.Deletion // what each part of the record repeats
	parts     []string        // keys of those that were written
	tags      map[oci.Tag]oci.Digest
	manifests map[oci.Digest]bool
	lost      bool // the storage had no room for a part
}

// MaxDeletions is the number of deletions that a read-only request reads: retention may make one for each
// tag, and each is an object.
const MaxDeletions = 1000

// maxDeletedNames is the number of tags and manifests after which a read-only request lists no further deletion.
const maxDeletedNames = 100_000

// finder finds the tags to delete.
type finder = func(context.Context) (pointers, error)

// beginDeletion returns nil if deletions can't be undone.
func (r Repository) beginDeletion() *deletion {
	keep := r.reg.opts.KeepDeleted
	if keep <= 0 || r.filler {
		return nil
	}
	at := r.reg.now()
	until := at.Add(keep)
	return &deletion{
		repo: r, head: layout.Deletion{ID: layout.DeletionID(at, until), At: at.UTC(), Until: until.UTC(), By: r.by},
		tags: map[oci.Tag]oci.Digest{}, manifests: map[oci.Digest]bool{},
	}
}

// ofRepository notes that the whole repository is deleted.
func (d *deletion) ofRepository() {
	if d != nil {
		d.head.Repository = true
	}
}

// record records what is about to be deleted, except what it has recorded before. A storage without
// room for the record is no error: the deletion makes room, and can't be undone.
func (d *deletion) record(ctx context.Context, at pointers, manifests ...oci.Digest) error {
	if d == nil || d.lost {
		return nil
	}
	news := d.head
	news.Tags = map[oci.Tag]oci.Digest{}
	for tag, p := range at {
		if p.Digest != "" && d.tags[tag] != p.Digest {
			d.tags[tag], news.Tags[tag] = p.Digest, p.Digest
		}
	}
	for _, m := range manifests {
		if !d.manifests[m] {
			d.manifests[m] = true
			news.Manifests = append(news.Manifests, m)
		}
	}
	var changes storage.Stage
	for _, part := range news.Split() {
		key := layout.DeletionPart(d.repo.name, d.head.ID, len(d.parts))
		d.parts = append(d.parts, key)
		changes = append(changes, storage.Change{Key: key, Content: part.Encode()})
	}
	if changes == nil {
		return nil
	}
	err := d.repo.apply(ctx, changes)
	if !errors.Is(err, storage.ErrNoSpace) {
		return err
	}
	d.lost = true
	d.repo.reg.opts.Log.Warn("the storage is full: a deletion is not recorded and cannot be undone",
		zap.String("repository", string(d.repo.name)), zap.String("by", d.head.By), zap.Error(err))
	if d.repo.unrecorded != nil {
		d.repo.unrecorded()
	}
	return nil
}

// recording returns find, which also records what it finds.
func (d *deletion) recording(find finder) finder {
	if d == nil {
		return find
	}
	return func(ctx context.Context) (pointers, error) {
		at, err := find(ctx)
		if err == nil {
			err = d.record(ctx, at)
		}
		return at, err
	}
}

// cancel removes the record, because nothing was deleted.
func (d *deletion) cancel(ctx context.Context) error {
	if d == nil {
		return nil
	}
	return d.repo.remove(ctx, d.parts)
}

// Deletion describes what one deletion removed.
type Deletion = layout.Deletion

// Deletions returns what the last limit deletions took from the repository and can be restored, the
// latest first; 0 stands for all. With a limit the list may end earlier, after 100,000 names. The
// repository itself need not exist any more.
func (r Repository) Deletions(ctx context.Context, limit int) ([]Deletion, error) {
	var all []Deletion
	names := 0
	err := r.eachDeletion(ctx, limit, func(_ *tree.Deletion, d *Deletion) bool {
		all = append(all, *d)
		names += len(d.Tags) + len(d.Manifests)
		return limit == 0 || names < maxDeletedNames
	})
	if err != nil {
		return nil, err
	}
	list := []Deletion{}
	for i := range all {
		inPlace, err := r.inPlace(ctx, &all[i])
		if err != nil {
			return nil, err
		}
		if !inPlace {
			list = append(list, all[i])
		}
	}
	return list, nil
}

// partsAtOnce is the number of parts of records that are read together, unless a single record has more. A part
// may take 5 MB.
const partsAtOnce = 8

// eachDeletion calls f with the records of the last limit deletions whose time isn't over, the latest first, until
// it returns false; 0 stands for all. f must not block: the registry holds a few records in memory, for all callers together.
func (r Repository) eachDeletion(ctx context.Context, limit int, f func(*tree.Deletion, *Deletion) (more bool)) error {
	now := r.reg.now()
	var found []tree.Deletion
	for d, err := range tree.Deletions(ctx, r.reg.store, r.name) {
		if err != nil {
			return err
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
		n, parts := 1, len(found[0].Keys)
		for n < len(found) && r.reg.store.Remote && parts+len(found[n].Keys) <= partsAtOnce {
			parts += len(found[n].Keys)
			n++
		}
		if more, err := r.someDeletions(ctx, found[:n], f); err != nil || !more {
			return err
		}
		found = found[n:]
	}
	return nil
}

// someDeletions is eachDeletion for records that are read together.
func (r Repository) someDeletions(ctx context.Context, some []tree.Deletion, f func(*tree.Deletion, *Deletion) bool) (more bool, err error) {
	select {
	case r.reg.records <- struct{}{}:
		defer func() { <-r.reg.records }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	all := make([]Deletion, len(some))
	err = r.reg.store.Each(len(some), func(i int) (err error) {
		all[i], err = some[i].Read(ctx, r.reg.store)
		return err
	})
	for i := range all {
		if err != nil || all[i].ID != "" && !f(&some[i], &all[i]) { // without an ID its parts are gone
			return false, err
		}
	}
	return true, nil
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
