package registry

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// Tags are deleted first, each only if it still points where it was seen to, and
// then manifests. What is interrupted leaves manifests with fewer tags; the client's
// retry finishes. A push that overlaps may have written its manifest before that was
// deleted and write its tag afterwards: it is waited for, and its tag goes too.

const (
	// tagsAtOnce is how many tags are deleted in one step: others wait for it.
	tagsAtOnce = 128
	// versionPause is how long a tag is left alone that was just written: within the
	// granularity of the store's clock it has no version.
	versionPause = 10 * time.Millisecond
	// overlapWait bounds how long a deletion waits for pushes that overlap: one of
	// them may be in a process that is stopped, or move a tag again and again.
	overlapWait = 5 * time.Second
)

// DeleteTag removes a tag with its history, and nothing else. was is what it pointed at, "" if
// its link could not be read. MANIFEST_UNKNOWN, NAME_UNKNOWN; DENIED with ErrImmutable inside.
func (r Repository) DeleteTag(ctx context.Context, tag oci.Tag) (was oci.Digest, err error) {
	if err := r.deletable(); err != nil {
		return "", err
	}
	at, err := r.findTag(ctx, tag)
	if absent(err) {
		r.forgetTag(tag)
		return "", r.unknown(ctx, r.tagUnknown(tag))
	} else if err != nil && !isBadLink(err) {
		return "", fault(err)
	}
	if err := r.refuseRemoval(tag); err != nil {
		return "", err
	}
	removal, err := r.tagRemoval(ctx, tag, pointer{history: at.history})
	if err != nil {
		return "", fault(err)
	}
	if err := r.reg.apply(ctx, nil, removal); err != nil {
		return "", fault(err)
	}
	r.reg.untagged(ctx, at.digest)
	return at.digest, nil
}

// findTag is readTag, by a listing where the store is remote: that tells the tag's history, too.
func (r Repository) findTag(ctx context.Context, tag oci.Tag) (pointer, error) {
	if !r.reg.remote {
		return r.readTag(ctx, tag)
	}
	found, err := r.listPointers(ctx, layout.Tag(r.name, tag), anyDigest)
	p, ok := found[tag]
	if err == nil && !ok {
		err = storage.ErrNotExist
	}
	return p, err
}

// untagged lets garbage collections know that a manifest has lost a tag, and so
// waits for none: its bytes are newer than its link from then on. If that fails, or
// the store has no room for it, it stays for Options.Grace. A collection may delete the bytes at that
// moment, and an object store bring them back: without a link, they are garbage of the next run. A request
// that comes late finds none, or those of a manifest that was pushed again, which then counts as released.
func (r *Registry) untagged(ctx context.Context, d oci.Digest) {
	if d == "" {
		return
	}
	renewal := storage.Change{Key: layout.BlobData(d), Renew: true}
	err := r.apply(ctx, nil, storage.Stage{renewal})
	if errors.Is(err, storage.ErrDenied) { // a file of another owner is written again
		if renewal.Content, _, err = storage.Read(ctx, r.store, renewal.Key, r.maxManifestSize); err == nil {
			err = r.apply(ctx, nil, storage.Stage{renewal})
		}
	}
	if err != nil && !absent(err) && !isConflict(err) { // somebody else has made them newer
		r.log.Debug("cannot renew the bytes of a manifest that has lost a tag", zap.String("digest", string(d)), zap.Error(err))
	}
}

// DeleteTagIf removes a tag with its history if its link still has that version and
// it is not immutable. A push at the same time, by whatever process, is never undone.
func (r Repository) DeleteTagIf(ctx context.Context, tag oci.Tag, version string) (removed bool, err error) {
	if err := r.reg.writable(); err != nil {
		return false, err
	}
	if version == "" || r.Immutable(tag) {
		return false, nil
	}
	removal, err := r.tagRemoval(ctx, tag, pointer{version: version})
	if err == nil {
		err = r.reg.apply(ctx, nil, removal)
	}
	if errors.Is(err, storage.ErrConflict) {
		return false, nil
	}
	return err == nil, fault(err)
}

// DeleteManifest removes a manifest and the tags that point at it, also where only
// those are left. DENIED with ErrImmutable inside if one of them is immutable, and
// then nothing is removed; MANIFEST_UNKNOWN, NAME_UNKNOWN. After another error, some
// of the tags may be gone.
func (r Repository) DeleteManifest(ctx context.Context, d oci.Digest) (removed []oci.Tag, err error) {
	if err := r.deletable(); err != nil {
		return nil, err
	}
	begun := time.Now()
	tags, err := r.pointingAt(ctx, d)
	if err != nil {
		return nil, fault(err)
	}
	if len(tags) == 0 {
		if there := r.revision(ctx, nil, d); absent(there) {
			return nil, r.unknown(ctx, r.revisionUnknown(d))
		} else if there != nil {
			return nil, fault(there)
		}
	}
	for tag := range tags {
		if err := r.refuseRemoval(tag); err != nil {
			return nil, err
		}
	}
	ctx, cancel := detach(ctx)
	defer cancel()
	find := func(ctx context.Context) (map[oci.Tag]pointer, error) { return r.pointingAt(ctx, d) }
	history := takeHistory(tags)
	removed, err = r.deleteAll(ctx, tags, find)
	if err == nil {
		gone := []string{layout.RevisionLink(r.name, d)}
		for _, tag := range removed {
			gone = append(gone, history[tag]...)
		}
		err = r.reg.apply(ctx, nil, deletions(gone))
	}
	if err != nil {
		return nil, fault(err)
	}
	if !r.awaitPushes(ctx, layout.RevisionLink(r.name, d), begun) {
		return removed, nil
	}
	if err := r.revision(ctx, nil, d); !absent(err) {
		return removed, fault(err)
	}
	late, err := r.deleteAll(ctx, nil, find)
	return append(removed, late...), fault(err)
}

// takeHistory has the histories of a few tags deleted together with their manifest, by one
// request, where a listing has shown them. Who sees a tag without its link takes it for none.
func takeHistory(tags map[oci.Tag]pointer) map[oci.Tag][]string {
	history := map[oci.Tag][]string{}
	if len(tags) > tagsAtOnce {
		return history
	}
	for tag, p := range tags {
		if p.history != nil {
			history[tag] = p.history
			p.history = []string{}
			tags[tag] = p
		}
	}
	return history
}

// Delete removes all manifests and tags of the repository, so that it leaves the
// catalog. Uploads under way go on, and blobs are left to the garbage collection:
// they may have been confirmed to clients. Repositories below it stay. NAME_UNKNOWN if
// there is none; DENIED (with ErrImmutable inside) if one of its tags is immutable.
func (r Repository) Delete(ctx context.Context) error {
	if err := r.deletable(); err != nil {
		return err
	}
	keys, err := r.reg.keysBelow(ctx, layout.Manifests(r.name))
	if err != nil {
		return fault(err)
	}
	if len(keys) == 0 {
		return r.nameUnknown()
	}
	tags, err := r.pointingAt(ctx, "")
	if err != nil {
		return fault(err)
	}
	for tag := range tags {
		if err := r.refuseRemoval(tag); err != nil {
			return err
		}
	}
	ctx, cancel := detach(ctx)
	defer cancel()
	all := func(ctx context.Context) (map[oci.Tag]pointer, error) { return r.pointingAt(ctx, "") }
	if _, err := r.deleteAll(ctx, tags, all); err != nil {
		return fault(err)
	}
	if keys, err = r.reg.keysBelow(ctx, layout.Manifests(r.name)); err != nil {
		return fault(err)
	}
	revisions := layout.Manifests(r.name) + "/revisions/"
	keys = slices.DeleteFunc(keys, func(key string) bool { // tags that have come meanwhile
		return !strings.HasPrefix(key, revisions) && strings.HasSuffix(key, "/current/link")
	})
	for some := range slices.Chunk(keys, tagsAtOnce) {
		if err := r.reg.apply(ctx, nil, deletions(some)); err != nil {
			return fault(err)
		}
	}
	r.awaitOverlapping(ctx, r.reg.coordinator.Barrier)
	_, err = r.deleteAll(ctx, nil, r.dangling)
	return fault(err)
}

// dangling finds the tags whose manifest is gone.
func (r Repository) dangling(ctx context.Context) (map[oci.Tag]pointer, error) {
	tags, err := r.pointingAt(ctx, "")
	for tag, p := range tags {
		if p.digest == "" { // the link is bad, whatever it was
			delete(tags, tag)
			continue
		}
		if there := r.revision(ctx, nil, p.digest); there == nil {
			delete(tags, tag)
		} else if !absent(there) {
			return nil, there
		}
	}
	return tags, err
}

// awaitPushes is awaitOverlapping. It says whether one of the pushes since begun may have been of
// the manifest with that link; others have set no tag that points at it.
func (r Repository) awaitPushes(ctx context.Context, link string, begun time.Time) bool {
	c, knows := r.reg.coordinator.(touched)
	if !knows {
		r.awaitOverlapping(ctx, r.reg.coordinator.Barrier)
		return true
	}
	pushed := true
	r.awaitOverlapping(ctx, func(ctx context.Context) (err error) {
		pushed, err = c.Touched(ctx, link, begun)
		return err
	})
	return pushed
}

// awaitOverlapping returns once the pushes have ended that began before.
func (r Repository) awaitOverlapping(ctx context.Context, barrier func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, overlapWait)
	defer cancel()
	if err := barrier(ctx); err != nil {
		r.reg.log.Warn("cannot wait for pushes that overlap a deletion; delete again what they leave",
			zap.String("repository", string(r.name)), zap.Error(err))
	}
}

// pointingAt finds the tags that point at d, or all if d is "": those, too, whose
// link holds no digest.
func (r Repository) pointingAt(ctx context.Context, d oci.Digest) (map[oci.Tag]pointer, error) {
	switch {
	case r.reg.remote && d == "":
		return r.listPointers(ctx, layout.Tags(r.name), anyDigest)
	case r.reg.remote:
		return r.sharePointers(ctx, d)
	}
	all, err := r.reg.list(ctx, layout.Tags(r.name))
	if err != nil {
		return nil, err
	}
	found := map[oci.Tag]pointer{}
	for _, name := range all.names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		tag, err := oci.ParseTag(name)
		if err != nil {
			continue
		}
		p, err := r.readTag(ctx, tag)
		switch {
		case absent(err):
		case err != nil && !isBadLink(err):
			return nil, err
		case d == "" || p.digest == d:
			found[tag] = p
		}
	}
	return found, nil
}

// deleteAll deletes the tags, or if there are none those that are found, until nobody has
// moved one of them meanwhile.
func (r Repository) deleteAll(ctx context.Context, tags map[oci.Tag]pointer, find func(context.Context) (map[oci.Tag]pointer, error)) (removed []oci.Tag, err error) {
	for progress := time.Now(); time.Since(progress) < overlapWait; tags = nil {
		if len(tags) == 0 {
			tags, err = find(ctx)
		}
		if err != nil || len(tags) == 0 {
			return removed, err
		}
		some, err := r.deleteTags(ctx, tags, tagsAtOnce)
		removed = append(removed, some...)
		if err != nil {
			return removed, err
		}
		if len(some) > 0 {
			progress = time.Now()
		}
		if len(some) == len(tags) {
			return removed, nil
		}
		time.Sleep(versionPause)
	}
	return removed, errContended
}

// deleteTags deletes those of the tags whose links still have the version that was
// read.
func (r Repository) deleteTags(ctx context.Context, tags map[oci.Tag]pointer, atOnce int) (removed []oci.Tag, err error) {
	names := slices.Sorted(maps.Keys(tags))
	names = slices.DeleteFunc(names, func(tag oci.Tag) bool { return tags[tag].version == "" })
	for some := range slices.Chunk(names, atOnce) {
		var stage storage.Stage
		for _, tag := range some {
			removal, err := r.tagRemoval(ctx, tag, tags[tag])
			if err != nil {
				return removed, err
			}
			stage = append(stage, removal...)
		}
		err := r.reg.apply(ctx, nil, stage)
		switch {
		case err == nil:
			removed = append(removed, some...)
		case !errors.Is(err, storage.ErrConflict):
			return removed, err
		case len(some) > 1: // one of them was moved
			read := map[oci.Tag]pointer{}
			for _, tag := range some {
				read[tag] = tags[tag]
			}
			alone, err := r.deleteTags(ctx, read, 1)
			removed = append(removed, alone...)
			if err != nil {
				return removed, err
			}
		default:
			if _, err := r.readTag(ctx, some[0]); absent(err) { // with the others
				removed = append(removed, some[0])
			}
		}
	}
	return removed, nil
}

// tagRemoval deletes a tag with its history, if its link has that version; "" stands
// for any.
func (r Repository) tagRemoval(ctx context.Context, tag oci.Tag, at pointer) (storage.Stage, error) {
	link, keys := layout.TagCurrent(r.name, tag), at.history
	if keys == nil {
		var err error
		if keys, err = r.reg.keysBelow(ctx, layout.Tag(r.name, tag)); err != nil {
			return nil, err
		}
	}
	removal := storage.Stage{{Key: link, Delete: true}}
	if at.version != "" {
		removal[0].If = storage.IfVersion(at.version)
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { return key == link })
	return append(removal, deletions(keys)...), nil
}

// keysBelow lists all objects below prefix.
func (r *Registry) keysBelow(ctx context.Context, prefix string) (keys []string, err error) {
	for info, err := range r.store.List(ctx, prefix, storage.ListOptions{Flat: true, Names: true}) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, info.Key)
	}
	return keys, nil
}

func deletions(keys []string) (stage storage.Stage) {
	for _, key := range keys {
		stage = append(stage, storage.Change{Key: key, Delete: true})
	}
	return stage
}
