package registry

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// tagList is the tags of a repository, as far as they were seen to point at
// something. It is shared: nobody changes it.
type tagList struct {
	from    *listing
	names   []string // have a link
	pending []string // directories that had none yet
}

// Tags lists at most n tags (all, if n < 0) strictly after last, sorted
// bytewise, and says whether there are more. Nobody changes the slice. A
// repository without tags has an empty list; NAME_UNKNOWN if there is none.
func (r Repository) Tags(ctx context.Context, n int, last string) (tags []string, more bool, err error) {
	list, err := r.tagList(ctx)
	if err != nil {
		return nil, false, err
	}
	tags = list.names
	if last != "" {
		i, found := slices.BinarySearch(tags, last)
		if found {
			i++
		}
		tags = tags[i:]
	}
	if n >= 0 && n < len(tags) {
		return tags[:n:n], n > 0, nil
	}
	return tags, false, nil
}

// tagList brings the remembered list up to date. A tag's directory exists
// before its link does, so directories without one are looked at each time.
func (r Repository) tagList(ctx context.Context) (*tagList, error) {
	from, err := r.reg.listDirs(ctx, layout.Tags(r.name))
	if absent(err) {
		return r.noTags(ctx)
	}
	if err != nil {
		return nil, fault(err)
	}
	old, _ := r.reg.tags.get(r.name)
	if old == nil {
		old = &tagList{}
	}
	if old.from == from && len(old.pending) == 0 {
		return old, nil
	}
	list, err := r.readTags(ctx, from, old.names)
	if err != nil {
		return nil, fault(err)
	}
	r.reg.tags.put(r.name, list, int64(200+24*len(list.names)))
	return list, nil
}

// readTags looks which of the directories are tags. Those in seen, which is
// sorted, are known to be.
func (r Repository) readTags(ctx context.Context, from *listing, seen []string) (*tagList, error) {
	list := &tagList{from: from, names: make([]string, 0, len(from.names))}
	for _, name := range from.names {
		for len(seen) > 0 && seen[0] < name {
			seen = seen[1:]
		}
		if len(seen) > 0 && seen[0] == name {
			list.names = append(list.names, name)
			continue
		}
		tag, err := oci.ParseTag(name)
		if err != nil {
			continue
		}
		_, _, err = r.reg.driver.Find(ctx, layout.TagCurrent(r.name, tag), layout.ExpiringTag(r.name, tag))
		if err != nil && !absent(err) {
			return nil, err
		}
		if err == nil {
			list.names = append(list.names, name)
		} else {
			list.pending = append(list.pending, name)
		}
	}
	return list, nil
}

// noTags is the list of a repository that has no directory for tags: manifests
// may have been pushed by digest only.
func (r Repository) noTags(ctx context.Context) (*tagList, error) {
	_, err := r.reg.driver.Stat(ctx, layout.Manifests(r.name))
	if absent(err) {
		return nil, r.nameUnknown()
	}
	return &tagList{names: []string{}}, fault(err)
}

// resolve reads what a tag points at.
func (r Repository) resolve(ctx context.Context, tag oci.Tag) (oci.Digest, error) {
	d, err := r.readTag(ctx, tag)
	if err == nil {
		return d, nil
	}
	if isBadLink(err) {
		r.reg.log.Warn("a tag's link cannot be read", zap.String("repository", string(r.name)), zap.String("tag", string(tag)), zap.Error(err))
		return "", r.tagUnknown(tag)
	}
	if absent(err) {
		return "", r.unknown(ctx, r.tagUnknown(tag))
	}
	return "", fault(err)
}

// pointsAt is what the tag points at, "" if it is not there or holds no digest.
// The error is that of the driver.
func (r Repository) pointsAt(ctx context.Context, tag oci.Tag) (oci.Digest, error) {
	d, err := r.readTag(ctx, tag)
	if absent(err) || isBadLink(err) {
		return "", nil
	}
	return d, err
}

// pointer is what a link held when its file was in the state that version names.
type pointer struct {
	version string
	digest  oci.Digest
}

// readTag reads the link of a tag, unless the storage says that it has not changed
// since it was last read. The tag is there as well while somebody has its link in
// his hands, who may put it back, or die so that others do.
func (r Repository) readTag(ctx context.Context, tag oci.Tag) (oci.Digest, error) {
	path := layout.TagCurrent(r.name, tag)
	version, ok := r.reg.driver.Version(ctx, path)
	if ok {
		if p, found := r.reg.pointers.get(path); found && p.version == version {
			return p.digest, nil
		}
	}
	d, err := r.reg.readLinkTwice(ctx, path, layout.ExpiringTag(r.name, tag))
	if ok && err == nil {
		r.reg.pointers.put(path, pointer{version, d}, 1)
	}
	return d, err
}

// DeleteTag removes a tag with its history, and nothing else; also one whose link
// somebody has in his hands, so that it is not put back later.
// MANIFEST_UNKNOWN, NAME_UNKNOWN; DENIED with ErrImmutable inside.
func (r Repository) DeleteTag(ctx context.Context, tag oci.Tag) error {
	if err := r.reg.deletable(); err != nil {
		return err
	}
	mu := r.lock()
	mu.Lock()
	defer mu.Unlock()
	_, _, err := r.reg.driver.Find(ctx, layout.TagCurrent(r.name, tag), layout.ExpiringTag(r.name, tag))
	if absent(err) {
		return r.unknown(ctx, r.tagUnknown(tag))
	}
	if err != nil {
		return fault(err)
	}
	if err := r.refuseRemoval(tag); err != nil {
		return err
	}
	before, unread := r.pointsAt(ctx, tag)
	if err := r.reg.commit(ctx, r.tagRemovals([]oci.Tag{tag})...); err != nil {
		return fault(err)
	}
	if unread == nil && before != "" {
		r.releasePromises(context.WithoutCancel(ctx), before, maxDepth)
	}
	return nil
}
