package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/storage"
)

// tagList is the tags of a repository that were seen to point at something. It is
// shared: nobody changes it.
type tagList struct {
	from    *listing
	names   []string // have a link
	pending []string // had none yet
}

// Tags lists at most n tags (all, if n < 0) strictly after last, sorted
// bytewise. Nobody changes the slice. A
// repository without tags has an empty list; NAME_UNKNOWN if there is none.
func (r Repository) Tags(ctx context.Context, n int, last string) (tags []string, page Page, err error) {
	if r.reg.remote && !r.cached() {
		tags, page.Next, err = r.tagsAfter(ctx, n, last)
		return tags, page, err
	}
	tags, page.Warning, err = r.currentTags(ctx)
	if err != nil {
		return nil, Page{}, err
	}
	if last != "" {
		i, found := slices.BinarySearch(tags, last)
		if found {
			i++
		}
		tags = tags[i:]
	}
	if n >= 0 && n < len(tags) {
		tags = tags[:n:n]
		if n > 0 {
			page.Next = tags[n-1]
		}
	}
	return tags, page, nil
}

// Page says what else there is to know about a page of a list.
type Page struct {
	Next    string // what the next page begins after, "" on the last one
	Warning string // that a client is told, "" if there is none
}

// currentTags lists those of the repository, or of what it is a cache of.
func (r Repository) currentTags(ctx context.Context) (tags []string, warning string, err error) {
	if r.cached() {
		tags, warning, err := r.reg.opts.Upstream.Tags(ctx, r.filled())
		return tags, warning, fault(err)
	}
	list, err := r.tagList(ctx)
	if err != nil {
		return nil, "", err
	}
	return list.names, "", nil
}

// tagList brings the remembered list up to date. A tag's history exists before its
// link does, so names without a link are looked at each time.
func (r Repository) tagList(ctx context.Context) (*tagList, error) {
	from, err := r.reg.list(ctx, layout.Tags(r.name))
	if err != nil {
		return nil, fault(err)
	}
	if len(from.names) == 0 {
		return r.noTags(ctx)
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

// readTags looks which of the names are tags. Those in seen, which is sorted, are
// known to be.
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
		_, err = r.reg.store.Stat(ctx, layout.TagCurrent(r.name, tag))
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

// noTags is the list of a repository without tags: manifests may have been pushed
// by digest only, or all were deleted.
func (r Repository) noTags(ctx context.Context) (*tagList, error) {
	known, err := r.known(ctx)
	if err == nil && !known {
		return nil, r.nameUnknown()
	}
	return &tagList{names: []string{}}, err
}

// resolve reads what a tag points at.
func (r Repository) resolve(ctx context.Context, tag oci.Tag) (oci.Digest, error) {
	p, err := r.readTag(ctx, tag)
	if err == nil {
		return p.digest, nil
	}
	if isBadLink(err) {
		r.reg.log.Warn("cannot read the link of a tag", zap.String("repository", string(r.name)), zap.String("tag", string(tag)), zap.Error(err))
		return "", r.tagUnknown(tag)
	}
	if absent(err) {
		r.forgetTag(tag)
		return "", r.unknown(ctx, r.tagUnknown(tag))
	}
	return "", fault(err)
}

// TagTarget is what a tag points at; ok is false if there is no such tag, or nobody can
// tell.
func (r Repository) TagTarget(ctx context.Context, tag oci.Tag) (d oci.Digest, ok bool) {
	p, err := r.readTag(ctx, tag)
	return p.digest, err == nil
}

// forgetTag has the tags listed anew that were seen with one that is not there: its
// deletion may have been interrupted before its history was gone.
func (r Repository) forgetTag(tag oci.Tag) {
	if list, ok := r.reg.tags.get(r.name); ok {
		if _, listed := slices.BinarySearch(list.names, string(tag)); listed {
			r.reg.tags.forget(r.name)
		}
	}
	kept, _ := r.reg.tagNames.get(r.name)
	if slices.Contains(kept, tagName{string(tag) + "/", true}) {
		r.reg.tagNames.forget(r.name)
	}
}

// pointer is what the link of a tag held when it had that version.
type pointer struct {
	version string
	digest  oci.Digest
	history []string // keys of the tag's history, where a listing has told; never remembered
}

// readTag reads the link of a tag, or only looks whether it still has the version that was
// read before. The error is that of the store, or says that it is a bad link, whose
// version is returned.
func (r Repository) readTag(ctx context.Context, tag oci.Tag) (pointer, error) {
	key := layout.TagCurrent(r.name, tag)
	if p, ok := r.reg.pointers.get(key); ok {
		info, err := r.reg.store.Stat(ctx, key)
		if err != nil {
			return pointer{}, err
		}
		if p.version == info.Version {
			return p, nil
		}
	}
	d, info, err := r.reg.readLink(ctx, key)
	p := pointer{version: info.Version, digest: d}
	if err == nil && p.version != "" {
		r.reg.pointers.put(key, p, 1)
	}
	return p, err
}

// movePointers is what makes the tags point at d: all, or none if one is immutable
// and points at something else.
func (r Repository) movePointers(ctx context.Context, d oci.Digest, tags []oci.Tag) (storage.Stage, error) {
	var moves storage.Stage
	for _, tag := range tags {
		// Not like other links: distribution 2.8 moves a tag by writing into this file.
		move := storage.Change{Key: layout.TagCurrent(r.name, tag), Content: layout.Link(d)}
		if !r.filler && (r.keepsTags || r.Immutable(tag)) {
			stays, err := r.setOnce(ctx, &move, d, tag)
			if err != nil {
				return nil, err
			}
			if stays {
				continue
			}
		}
		moves = append(moves, move)
	}
	return moves, nil
}

func (r Repository) tagUnknown(tag oci.Tag) *oci.Error {
	return oci.NewError(oci.CodeManifestUnknown, "unknown tag="+string(tag))
}

// ErrImmutable is inside the DENIED error of a change to an immutable tag.
var ErrImmutable = errors.New("the tag is immutable")

// TagRule selects tags of repositories.
type TagRule struct {
	Repositories pattern.Names
	Tags         pattern.Tags
}

// Immutable says whether the tag, once it is there, is neither moved nor
// deleted.
func (r Repository) Immutable(tag oci.Tag) bool {
	for i := range r.reg.opts.Immutable {
		if rule := &r.reg.opts.Immutable[i]; rule.Tags.Match(tag) && rule.Repositories.Match(r.name) {
			return true
		}
	}
	return false
}

// setOnce gives the move to d of a tag that stays once it is set its condition, so that of two
// pushes, by whatever processes, one is the first. The tag stays if it points at d
// already; DENIED if at anything else. A link that holds no digest is overwritten.
func (r Repository) setOnce(ctx context.Context, move *storage.Change, d oci.Digest, tag oci.Tag) (stays bool, err error) {
	now, err := r.readTag(ctx, tag)
	switch {
	case absent(err):
		move.If = storage.IfAbsent()
		return false, nil
	case isBadLink(err):
		if now.version != "" {
			move.If = storage.IfVersion(now.version)
		}
		return false, nil
	case err != nil:
		return false, fault(err)
	case now.digest != d && !r.Immutable(tag):
		return false, &oci.Error{
			Code: oci.CodeDenied, Detail: map[string]string{"tag": string(tag)},
			Message: fmt.Sprintf("the tag %s exists and moving it needs the right tag-move; push under another tag", tag),
		}
	case now.digest != d:
		return false, denied(fmt.Sprintf("the tag %s is immutable and stays at %s; push under another tag", tag, now.digest), tag)
	}
	return true, nil
}

// refuseRemoval is nil unless the tag is immutable.
func (r Repository) refuseRemoval(tag oci.Tag) error {
	if r.Immutable(tag) {
		return denied(fmt.Sprintf("the tag %s is immutable and cannot be deleted", tag), tag)
	}
	return nil
}

func denied(message string, tag oci.Tag) error {
	return &oci.Error{Code: oci.CodeDenied, Message: message, Detail: map[string]string{"tag": string(tag)}, Err: ErrImmutable}
}
