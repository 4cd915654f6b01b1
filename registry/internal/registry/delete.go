package registry

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry/tags"
	"slipway/registry/internal/storage"
)

// Tags are deleted first, each only if it still points where it was seen to, and then manifests. An
// interrupted deletion leaves manifests with fewer tags, which the client's retry removes, and perhaps
// the history of a tag that is gone, which a garbage collection removes. A push at the same time may
// have written its manifest before that was deleted, and write its tag afterwards. So the pusher checks
// the manifest again after setting the tag, and the deleter looks for tags without a manifest.
// An immutable tag that is pushed meanwhile stays with its manifest.
//
// Where deletions can be undone, their record is written before anything goes, unless the storage is full.

const (
	// tagsAtOnce is the number of tags that are deleted in one step, which blocks other changes.
	tagsAtOnce = 128
	// versionPause is the granularity of the store's clock: a tag that was just written has no
	// version within it.
	versionPause = 10 * time.Millisecond
	// overlapWait bounds how long a deletion runs after tags that pushes keep moving.
	overlapWait = 5 * time.Second
)

// DeleteTag removes a tag with its history, and nothing else. was is what it pointed at, "" if its link
// could not be read. The error is MANIFEST_UNKNOWN or NAME_UNKNOWN if the tag doesn't exist, and DENIED
// wrapping ErrImmutable if it is immutable.
func (r Repository) DeleteTag(ctx context.Context, tag oci.Tag) (was oci.Digest, err error) {
	if err := r.deletable(); err != nil {
		return "", err
	}
	at, err := r.reg.tags.Find(ctx, r.name, tag)
	if absent(err) {
		return "", r.unknown(ctx, r.tagUnknown(tag))
	}
	if err == nil {
		err = r.refuseRemoval(tag)
	}
	if err != nil {
		return "", err
	}
	ctx, cancel := detach(ctx)
	defer cancel()
	found, undo := pointers{tag: at}, r.beginDeletion()
	if err := undo.record(ctx, found); err != nil {
		return "", err
	}
	_, err = r.deleteTags(ctx, found, undo.recording(func(ctx context.Context) (pointers, error) {
		moved, err := r.reg.tags.Find(ctx, r.name, tag)
		if err != nil {
			return nil, unlessAbsent(err)
		}
		at = moved
		return pointers{tag: at}, nil
	}))
	return at.Digest, err
}

// DeleteTagIf removes a tag with its history if its link, which points at was, still has that
// version and it is not immutable. A concurrent push, by any process, is never undone.
func (r Repository) DeleteTagIf(ctx context.Context, tag oci.Tag, was oci.Digest, version string) (removed bool, err error) {
	if err := r.reg.writable(); err != nil {
		return false, err
	}
	if version == "" || r.Immutable(tag) {
		return false, nil
	}
	found, undo := pointers{tag: {Digest: was, Version: version}}, r.beginDeletion()
	if err := undo.record(ctx, found); err != nil {
		return false, err
	}
	gone, err := r.deleteUnmoved(ctx, found, nil)
	if err == nil && len(gone) == 0 {
		err = undo.cancel(ctx)
	}
	return len(gone) > 0, err
}

// DeleteManifest removes a manifest and the tags that point at it, also where only
// those are left. The error is DENIED with ErrImmutable inside if one of them is immutable: it stays with the
// manifest, and nothing is removed unless it was pushed meanwhile. Otherwise the error is MANIFEST_UNKNOWN or
// NAME_UNKNOWN, or another after which some of the tags may be gone.
func (r Repository) DeleteManifest(ctx context.Context, d oci.Digest) (removed []oci.Tag, err error) {
	if err := r.deletable(); err != nil {
		return nil, err
	}
	find := func(ctx context.Context) (pointers, error) { return r.reg.tags.PointingAt(ctx, r.name, d) }
	pointing := r.removable(find)
	undo := r.beginDeletion()
	var at pointers
	var there error // of the manifest
	err = r.reg.store.Each(2, func(i int) (err error) {
		if i == 0 {
			at, err = pointing(ctx)
		} else if undo != nil {
			there = r.revision(ctx, d)
		}
		return err
	})
	if err == nil && undo == nil && len(at) == 0 {
		there = r.revision(ctx, d)
	}
	switch {
	case err != nil:
	case !absent(there):
		err = there
	case len(at) == 0:
		return nil, r.unknown(ctx, r.revisionUnknown(d))
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := detach(ctx)
	defer cancel()
	var record []oci.Digest
	if there == nil {
		record = append(record, d)
	}
	if err := undo.record(ctx, at, record...); err != nil {
		return nil, err
	}
	if removed, err = r.deleteTags(ctx, at, undo.recording(pointing), layout.RevisionLink(r.name, d)); err != nil {
		return nil, err
	}
	r.reg.opts.Changed(r.name, d, nil)
	var kept error
	dangling := undo.recording(r.sparing(&kept, []oci.Digest{d}, func(ctx context.Context) (pointers, error) {
		at, err := find(ctx)
		if err != nil || len(at) == 0 {
			return nil, err
		}
		if err = r.revision(ctx, d); err == nil { // it was pushed again
			return nil, nil
		}
		return at, unlessAbsent(err)
	}))
	if at, err = dangling(ctx); err != nil {
		return removed, err
	}
	late, err := r.deleteTags(ctx, at, dangling)
	return append(removed, late...), cmp.Or(err, kept)
}

// Delete removes all manifests and tags of the repository, so that it leaves the
// catalog. Uploads in progress continue, and blobs are left to the garbage collection:
// they may have been confirmed to clients. Repositories below it stay. The error is NAME_UNKNOWN if
// there is none; DENIED (with ErrImmutable inside) if one of its tags is immutable: it stays with its manifest,
// and nothing is removed unless it was pushed meanwhile.
func (r Repository) Delete(ctx context.Context) error {
	if err := r.deletable(); err != nil {
		return err
	}
	find := r.removable(func(ctx context.Context) (pointers, error) { return r.reg.tags.All(ctx, r.name) })
	at, err := find(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := detach(ctx)
	defer cancel()
	undo := r.beginDeletion()
	undo.ofRepository()
	if err := undo.record(ctx, at); err != nil {
		return err
	}
	removed, err := r.deleteTags(ctx, at, undo.recording(find))
	if err != nil {
		return err
	}
	keys, err := r.reg.store.Keys(ctx, layout.Manifests(r.name))
	if err != nil {
		return err
	}
	if len(keys) == 0 && len(removed) == 0 {
		return r.nameUnknown()
	}
	var late []oci.Tag // have come meanwhile
	keys = slices.DeleteFunc(keys, func(key string) bool {
		name, below := strings.CutPrefix(key, layout.Tags(r.name)+"/")
		tag, link := strings.CutSuffix(name, "/"+layout.TagCurrentName)
		if below && link {
			late = append(late, oci.Tag(tag))
		}
		return below && link
	})
	if err := r.refuseRemoval(late...); err != nil {
		return err
	}
	revisions := r.revisionsOf(keys)
	if err := undo.record(ctx, nil, revisions...); err != nil {
		return err
	}
	for some := range slices.Chunk(keys, tagsAtOnce) {
		if err := r.remove(ctx, some); err != nil {
			return err
		}
	}
	r.reg.opts.Changed(r.name, "", nil)
	var kept error
	dangling := undo.recording(r.sparing(&kept, revisions, r.dangling))
	if at, err = dangling(ctx); err == nil {
		_, err = r.deleteTags(ctx, at, dangling)
	}
	return cmp.Or(err, kept)
}

// revisionsOf returns the manifests whose links are among the keys.
func (r Repository) revisionsOf(keys []string) (all []oci.Digest) {
	prefix := layout.Manifests(r.name) + "/"
	for _, key := range keys {
		if d, ok := layout.ParseRevisionLink(strings.TrimPrefix(key, prefix)); ok {
			all = append(all, d)
		}
	}
	return all
}

// dangling finds the tags whose manifest is gone.
func (r Repository) dangling(ctx context.Context) (pointers, error) {
	all, err := r.reg.tags.All(ctx, r.name)
	for tag, p := range all {
		if p.Digest == "" { // the link is bad, whatever it was
			delete(all, tag)
			continue
		}
		if there := r.revision(ctx, p.Digest); there == nil {
			delete(all, tag)
		} else if !absent(there) {
			return nil, there
		}
	}
	return all, err
}

// removable returns find, which returns DENIED if it finds an immutable tag.
func (r Repository) removable(find finder) finder {
	return func(ctx context.Context) (pointers, error) {
		at, err := find(ctx)
		if err == nil {
			err = r.refuseRemoval(slices.Sorted(maps.Keys(at))...)
		}
		return at, err
	}
}

// sparing returns dangling, which finds tags whose manifests a deletion has removed, without those whose manifest
// an immutable tag points at: it was pushed during the deletion. That manifest is put in place again, with what it
// needs of those removed, and kept becomes the refusal to delete the tag.
func (r Repository) sparing(kept *error, removed []oci.Digest, dangling finder) finder {
	return func(ctx context.Context) (pointers, error) {
		at, err := dangling(ctx)
		if err != nil {
			return nil, err
		}
		trash, back := map[oci.Digest]bool{}, map[oci.Digest]bool{}
		for _, d := range removed {
			trash[d] = true
		}
		for _, tag := range slices.Sorted(maps.Keys(at)) {
			refusal := r.refuseRemoval(tag)
			if refusal == nil {
				continue
			}
			d := at[tag].Digest
			trash[d] = true
			if err := r.newRestore(trash).put(ctx, d); err != nil {
				return nil, err
			}
			*kept, back[d] = cmp.Or(*kept, refusal), true
		}
		maps.DeleteFunc(at, func(_ oci.Tag, p tags.Pointer) bool { return back[p.Digest] })
		return at, nil
	}
}

// pointers are tags and where they were seen to point.
type pointers = map[oci.Tag]tags.Pointer

// deleteTags deletes the tags, and those found then if one of them was moved
// concurrently. The objects at the keys are deleted last.
func (r Repository) deleteTags(ctx context.Context, at pointers, find func(context.Context) (pointers, error), last ...string) (removed []oci.Tag, err error) {
	for progress := time.Now(); ; {
		some, err := r.deleteUnmoved(ctx, at, last)
		removed = append(removed, some...)
		if err != nil || len(some) == len(at) {
			return removed, err
		}
		if len(some) > 0 {
			progress = time.Now()
		} else if time.Since(progress) > overlapWait {
			return removed, errOvertaken
		}
		time.Sleep(versionPause)
		if at, err = find(ctx); err != nil {
			return removed, err
		}
	}
}

// deleteUnmoved deletes those of the tags whose links still have the version that was
// read, and what is at the keys if these are all.
func (r Repository) deleteUnmoved(ctx context.Context, at pointers, last []string) (removed []oci.Tag, err error) {
	names := slices.Sorted(maps.Keys(at))
	names = slices.DeleteFunc(names, func(tag oci.Tag) bool { return at[tag].Version == "" })
	var rest []string
	for some := range slices.Chunk(names, tagsAtOnce) {
		if err := r.remove(ctx, rest); err != nil {
			return removed, err
		}
		histories := map[oci.Tag][]string{}
		for _, tag := range some {
			if histories[tag], err = r.history(ctx, tag, at[tag]); err != nil {
				return removed, err
			}
		}
		gone, err := r.unlink(ctx, at, some)
		removed = append(removed, gone...)
		if err != nil {
			return removed, err
		}
		rest = nil
		for _, tag := range gone {
			rest = append(rest, histories[tag]...)
		}
	}
	if len(removed) == len(at) { // at the end of the same step, where the store keeps an order
		rest = append(rest, last...)
	}
	return removed, r.remove(ctx, rest)
}

// unlink deletes the links of those of the tags that still have the version that was read.
func (r Repository) unlink(ctx context.Context, at pointers, some []oci.Tag) (gone []oci.Tag, err error) {
	defer func() {
		if len(gone) > 0 || err != nil { // which may have come after the deletion
			r.reg.opts.Changed(r.name, "", some)
		}
	}()
	var links storage.Stage
	for _, tag := range some {
		links = append(links, storage.Change{Key: layout.TagCurrent(r.name, tag), Delete: true, If: storage.IfVersion(at[tag].Version)})
	}
	if err = r.apply(ctx, links); err == nil {
		return some, nil
	} else if !isConflict(err) {
		return nil, err
	} else if len(some) == 1 { // it was moved or deleted, by somebody else
		return nil, nil
	}
	for i, tag := range some { // one of them was moved
		err := r.apply(ctx, links[i:i+1])
		if isConflict(err) {
			if _, err := r.reg.tags.Read(ctx, r.name, tag); !absent(err) { // otherwise it was deleted with the others
				continue
			}
		} else if err != nil {
			return gone, err
		}
		gone = append(gone, tag)
	}
	return gone, nil
}

// history returns the keys of a tag's history.
func (r Repository) history(ctx context.Context, tag oci.Tag, at tags.Pointer) ([]string, error) {
	if at.History != nil {
		return at.History, nil
	}
	keys, err := r.reg.store.Keys(ctx, layout.Tag(r.name, tag))
	link := layout.TagCurrent(r.name, tag)
	return slices.DeleteFunc(keys, func(key string) bool { return key == link }), err
}

// remove deletes the objects at the keys.
func (r Repository) remove(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	return r.apply(ctx, deletions(keys))
}

func deletions(keys []string) (stage storage.Stage) {
	for _, key := range keys {
		stage = append(stage, storage.Change{Key: key, Delete: true})
	}
	return stage
}
