package tree

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// Link is a link as it was read. Its Info is that of the object; Modified is when it
// was written or last renewed.
type Link struct {
	storage.Info
	Digest oci.Digest // what its key says
	Target oci.Digest // what it holds
	Err    error      // why there is no Target: layout.ErrEmptyLink, layout.ErrBadLink, or a fault of the storage
}

// Revisions yields the links of the manifests of a repository.
func Revisions(ctx context.Context, s storage.Store, name oci.Name) iter.Seq2[Link, error] {
	return links(ctx, s, func(a oci.Algorithm) string { return layout.Revisions(name, a) },
		func(x oci.Digest) string { return layout.RevisionLink(name, x) })
}

// Layers yields the links of the blobs of a repository.
func Layers(ctx context.Context, s storage.Store, name oci.Name) iter.Seq2[Link, error] {
	return links(ctx, s, func(a oci.Algorithm) string { return layout.Layers(name, a) },
		func(x oci.Digest) string { return layout.LayerLink(name, x) })
}

// links yields the links in prefixes named by digests. A prefix without one is
// passed over.
func links(ctx context.Context, s storage.Store, prefix func(oci.Algorithm) string, key func(oci.Digest) string) iter.Seq2[Link, error] {
	return func(yield func(Link, error) bool) {
		for _, alg := range Algorithms() {
			for hex, err := range names(ctx, s, prefix(alg)) {
				if err != nil {
					yield(Link{Info: storage.Info{Key: prefix(alg)}}, err)
					return
				}
				digest, err := oci.ParseDigest(string(alg) + ":" + hex)
				if err != nil {
					continue
				}
				if l, ok := ReadLink(ctx, s, key(digest), digest); ok && !yield(l, nil) {
					return
				}
			}
		}
	}
}

// ReadLink reads a link whose key says that it leads to digest. ok is false if
// there is none. One that is empty is read again a little later: distribution
// 2.8 empties links before it writes them again.
func ReadLink(ctx context.Context, s storage.Store, key string, digest oci.Digest) (l Link, ok bool) {
	l = Link{Digest: digest}
	for try := range 2 {
		if try > 0 {
			time.Sleep(5 * time.Millisecond)
		}
		var content []byte
		content, l.Info, l.Err = storage.Read(ctx, s, key, layout.MaxLink)
		if errors.Is(l.Err, storage.ErrTooLarge) {
			l.Err = layout.ErrBadLink
		} else if l.Err == nil {
			l.Target, l.Err = layout.ParseLink(content)
		}
		if !errors.Is(l.Err, layout.ErrEmptyLink) {
			break
		}
	}
	l.Key = key
	return l, !errors.Is(l.Err, storage.ErrNotExist)
}

// Tag is a tag and the link that describes what it points at.
type Tag struct {
	Name oci.Tag
	Link
}

// Pushed returns when the tag was last pushed. recorded reports whether the time is
// from the tag's push record. Without a valid record it is the date of the link, which
// a copy or a restore may have changed. The error is a fault of the storage.
func (t *Tag) Pushed(ctx context.Context, s storage.Store, name oci.Name) (at time.Time, recorded bool, err error) {
	pushes, err := Pushes(ctx, s, name, t.Name)
	if err != nil {
		return time.Time{}, false, err
	}
	if len(pushes) > 0 && pushes[0].Digest == t.Target {
		return pushes[0].At, true, nil
	}
	return t.Modified, false, nil
}

// Pushes returns the pushes in the push record of a tag, the latest first; none without a
// valid record. The error is a fault of the storage.
func Pushes(ctx context.Context, s storage.Store, name oci.Name, tag oci.Tag) ([]layout.Push, error) {
	content, _, err := storage.Read(ctx, s, layout.TagPushed(name, tag), layout.MaxPushed)
	switch {
	case errors.Is(err, storage.ErrNotExist), errors.Is(err, storage.ErrTooLarge):
		return nil, nil
	case err != nil:
		return nil, err
	}
	pushes, _ := layout.ParsePushed(content)
	return pushes, nil
}

// Tags yields the tags of a repository.
func Tags(ctx context.Context, s storage.Store, name oci.Name) iter.Seq2[Tag, error] {
	return func(yield func(Tag, error) bool) {
		for child, err := range names(ctx, s, layout.Tags(name)) {
			if err != nil {
				yield(Tag{Link: Link{Info: storage.Info{Key: layout.Tags(name)}}}, err)
				return
			}
			tag, err := oci.ParseTag(child)
			if err != nil {
				continue
			}
			if l, ok := ReadLink(ctx, s, layout.TagCurrent(name, tag), ""); ok && !yield(Tag{tag, l}, nil) {
				return
			}
		}
	}
}

// Linked yields what the links of a repository's blobs and manifests lead to, without reading
// most of them: a link as long as its own digest holds that digest. Links that cannot be read
// are left out. It ends with the first error.
func Linked(ctx context.Context, s storage.Store, name oci.Name) iter.Seq2[oci.Digest, error] {
	return func(yield func(oci.Digest, error) bool) {
		for _, dir := range []string{layout.Repository(name) + "/_layers", layout.Manifests(name) + "/revisions"} {
			for l, err := range listLinks(ctx, s, dir) {
				if err != nil {
					yield("", err)
					return
				}
				if l.Err == nil && !yield(l.Target, nil) {
					return
				}
			}
		}
	}
}

// ListLayers yields the links of the blobs of a repository by one listing. A link as long as its own
// digest isn't read: it holds that digest.
func ListLayers(ctx context.Context, s storage.Store, name oci.Name) iter.Seq2[Link, error] {
	return listLinks(ctx, s, layout.Repository(name)+"/_layers")
}

// listLinks yields the links below a directory, by algorithm and digest.
func listLinks(ctx context.Context, s storage.Store, dir string) iter.Seq2[Link, error] {
	return func(yield func(Link, error) bool) {
		for info, err := range s.List(ctx, dir, storage.ListOptions{Flat: true}) {
			if err != nil {
				yield(Link{Info: storage.Info{Key: dir}}, err)
				return
			}
			parts := strings.Split(info.Key[len(dir)+1:], "/")
			if len(parts) != 3 || parts[2] != "link" {
				continue
			}
			d, err := oci.ParseDigest(parts[0] + ":" + parts[1])
			if err != nil {
				continue
			}
			if l, ok := ListedLink(ctx, s, info, d); ok && !yield(l, nil) {
				return
			}
		}
	}
}

// ListedLink is the link to digest that was listed. Unless it is as long as that, it is read. ok is
// false if it is gone.
func ListedLink(ctx context.Context, s storage.Store, info storage.Info, digest oci.Digest) (l Link, ok bool) {
	if info.Size == int64(len(digest)) {
		return Link{Info: info, Digest: digest, Target: digest}, true
	}
	return ReadLink(ctx, s, info.Key, digest)
}
