package tree

import (
	"context"
	"errors"
	"iter"
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
// 2.8 empties links before it writes them anew.
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

// Tag is a tag and the link that says what it points at.
type Tag struct {
	Name oci.Tag
	Link
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
