package registry

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

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
// Where deletions can be undone, a record is written before anything goes, unless the storage is full. What was pushed
// meanwhile has a record of its own.

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
	} else if err != nil {
		return "", err
	}
	ctx, cancel := detach(ctx)
	defer cancel()
	_, err = r.beginDeletion().remove(ctx, pointers{tag: at}, func(ctx context.Context) (pointers, error) {
		moved, err := r.reg.tags.Find(ctx, r.name, tag)
		if err != nil {
			return nil, unlessAbsent(err)
		}
		at = moved
		return pointers{tag: at}, nil
	})
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
	found, deletion := pointers{tag: {Digest: was, Version: version}}, r.beginDeletion()
	if err := deletion.record(ctx, found); err != nil {
		return false, err
	}
	gone, err := r.deleteUnmoved(ctx, found, nil)
	if err == nil && len(gone) == 0 {
		err = r.deleteKeys(ctx, deletion.records)
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
	find := func(ctx context.Context) (pointers, error) {
		return r.reg.tags.Pointing(ctx, r.name, func(at oci.Digest) bool { return at == d })
	}
	deletion := r.beginDeletion()
	var at pointers
	var there error // of the manifest
	err = r.reg.store.Each(2, func(i int) (err error) {
		if i == 0 {
			at, err = find(ctx)
		} else if deletion.keep > 0 {
			there = r.revision(ctx, d)
		}
		return err
	})
	if err == nil && deletion.keep <= 0 && len(at) == 0 {
		there = r.revision(ctx, d)
	}
	if err == nil && absent(there) && len(at) == 0 {
		return nil, r.unknown(ctx, r.revisionUnknown(d))
	}
	if err = cmp.Or(err, unlessAbsent(there), r.refuseRemoval(at.names()...)); err != nil {
		return nil, err
	}
	ctx, cancel := detach(ctx)
	defer cancel()
	if there == nil {
		if err := deletion.record(ctx, at, d); err != nil {
			return nil, err
		}
	}
	if removed, err = deletion.remove(ctx, at, find, layout.RevisionLink(r.name, d)); err != nil {
		return nil, err
	}
	r.reg.opts.Changed(r.name, d, nil)
	late, err := deletion.removeDangling(ctx, d)
	return append(removed, late...), err
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
	find := func(ctx context.Context) (pointers, error) { return r.reg.tags.All(ctx, r.name) }
	at, err := find(ctx)
	if err == nil {
		err = r.refuseRemoval(at.names()...)
	}
	if err != nil {
		return err
	}
	ctx, cancel := detach(ctx)
	defer cancel()
	deletion := r.beginDeletion()
	if err := deletion.recordAll(ctx, at); err != nil {
		return err
	}
	removed, err := deletion.remove(ctx, at, find)
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
	if err := deletion.record(ctx, nil, revisions...); err != nil {
		return err
	}
	for some := range slices.Chunk(keys, tagsAtOnce) {
		if err := r.deleteKeys(ctx, some); err != nil {
			return err
		}
	}
	r.reg.opts.Changed(r.name, "", nil)
	_, err = deletion.removeDangling(ctx, revisions...)
	return err
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

// pointers are tags and where they were seen to point.
type pointers map[oci.Tag]tags.Pointer

func (p pointers) names() []oci.Tag { return slices.Sorted(maps.Keys(p)) }

// deletion is one deletion under way.
type deletion struct {
	Repository
	begun     time.Time
	keep      time.Duration // how long it can be undone; 0 = it can't, or a record is lost
	whole     bool          // the next record is that of the whole repository
	records   []string      // keys of those that were written
	tags      map[oci.Tag]oci.Digest
	manifests map[oci.Digest]bool
}

func (r Repository) beginDeletion() *deletion {
	d := &deletion{Repository: r, begun: r.reg.now().UTC(), keep: r.reg.opts.KeepDeleted, tags: map[oci.Tag]oci.Digest{}, manifests: map[oci.Digest]bool{}}
	if r.filler {
		d.keep = 0
	}
	return d
}

// record records what is about to be deleted, except what has been recorded. A storage without
// room for the record is no error: the deletion makes room, and can't be undone.
func (d *deletion) record(ctx context.Context, found pointers, manifests ...oci.Digest) error {
	if d.keep <= 0 {
		return nil
	}
	at := d.begun.Add(time.Duration(len(d.records)) * time.Millisecond) // later than the record before
	until := at.Add(d.keep)
	news := layout.Deletion{ID: layout.DeletionID(at, until), At: at, Until: until, By: d.by, Repository: d.whole, Tags: map[oci.Tag]oci.Digest{}}
	for tag, p := range found {
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
	if len(news.Tags)+len(news.Manifests) == 0 {
		return nil
	}
	d.whole = false
	key := news.Key(d.name)
	d.records = append(d.records, key)
	err := d.apply(ctx, storage.Stage{{Key: key, Content: news.Encode()}})
	if !errors.Is(err, storage.ErrNoSpace) {
		return err
	}
	d.keep = 0
	d.reg.log.Warn("the storage is full: a deletion is not recorded and cannot be undone",
		zap.String("repository", string(d.name)), zap.String("by", d.by), zap.Error(err))
	if d.unrecorded != nil {
		d.unrecorded()
	}
	return nil
}

// recordAll records the whole repository, whose tags are given.
func (d *deletion) recordAll(ctx context.Context, at pointers) error {
	if d.keep <= 0 {
		return nil
	}
	keys, err := d.reg.store.Keys(ctx, layout.Manifests(d.name)+"/revisions")
	if err != nil {
		return err
	}
	d.whole = true
	return d.record(ctx, at, d.revisionsOf(keys)...)
}

// remove deletes the tags, and those found then if one of them was moved
// concurrently. The objects at the keys are deleted last. DENIED if one of the tags is immutable.
func (d *deletion) remove(ctx context.Context, at pointers, find func(context.Context) (pointers, error), last ...string) (removed []oci.Tag, err error) {
	for progress := time.Now(); ; {
		if err := d.refuseRemoval(at.names()...); err != nil {
			return removed, err
		}
		if err := d.record(ctx, at); err != nil {
			return removed, err
		}
		some, err := d.deleteUnmoved(ctx, at, last)
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

// removeDangling deletes the tags that pushes have pointed at the manifests which the deletion has removed. The manifest
// of an immutable one is put in place again, with what it needs of those, and the error is DENIED.
func (d *deletion) removeDangling(ctx context.Context, manifests ...oci.Digest) (removed []oci.Tag, err error) {
	gone := map[oci.Digest]bool{}
	for _, m := range manifests {
		gone[m] = true
	}
	var kept error
	find := func(ctx context.Context) (pointers, error) {
		at, err := d.reg.tags.Pointing(ctx, d.name, func(at oci.Digest) bool { return gone[at] })
		if err != nil {
			return nil, err
		}
		for _, tag := range pointers(at).names() {
			if refusal := d.refuseRemoval(tag); refusal != nil {
				kept = cmp.Or(kept, refusal)
				if err := d.newRestore(gone).put(ctx, at[tag].Digest); err != nil {
					return nil, err
				}
			}
		}
		for tag, p := range at {
			there := d.revision(ctx, p.Digest)
			if there != nil && !absent(there) {
				return nil, there
			}
			if there == nil {
				delete(at, tag)
			}
		}
		return at, nil
	}
	at, err := find(ctx)
	if err == nil {
		removed, err = d.remove(ctx, at, find)
	}
	return removed, cmp.Or(err, kept)
}

// deleteUnmoved deletes those of the tags whose links still have the version that was
// read, and what is at the keys if these are all.
func (r Repository) deleteUnmoved(ctx context.Context, at pointers, last []string) (removed []oci.Tag, err error) {
	names := slices.DeleteFunc(at.names(), func(tag oci.Tag) bool { return at[tag].Version == "" })
	var rest []string
	for some := range slices.Chunk(names, tagsAtOnce) {
		if err := r.deleteKeys(ctx, rest); err != nil {
			return removed, err
		}
		histories := map[oci.Tag][]string{}
		for _, tag := range some {
			if histories[tag], err = r.historyKeys(ctx, tag, at[tag]); err != nil {
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
	return removed, r.deleteKeys(ctx, rest)
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

// historyKeys returns the keys of a tag's history.
func (r Repository) historyKeys(ctx context.Context, tag oci.Tag, at tags.Pointer) ([]string, error) {
	if at.History != nil {
		return at.History, nil
	}
	keys, err := r.reg.store.Keys(ctx, layout.Tag(r.name, tag))
	link := layout.TagCurrent(r.name, tag)
	return slices.DeleteFunc(keys, func(key string) bool { return key == link }), err
}

// deleteKeys deletes the objects at the keys.
func (r Repository) deleteKeys(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	var stage storage.Stage
	for _, key := range keys {
		stage = append(stage, storage.Change{Key: key, Delete: true})
	}
	return r.apply(ctx, stage)
}
