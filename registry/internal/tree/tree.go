// Package tree reads the tree on the storage from one end to the other, for the
// work that looks at all of it: retention, verification, usage. It remembers
// nothing and changes nothing.
package tree

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// Algorithms are those under which anything is stored.
func Algorithms() []oci.Algorithm { return []oci.Algorithm{oci.SHA256, oci.SHA384, oci.SHA512} }

// ErrDamaged is inside the error for bytes that are not those of their digest,
// ErrNotManifest inside that for bytes that are no manifest.
var (
	ErrDamaged     = errors.New("the bytes are not those of the digest")
	ErrNotManifest = errors.New("it is no manifest")
)

// Repositories yields the repositories, those without manifests too. One that
// vanishes meanwhile may be among them. What cannot be listed is an error, with
// the name of the repository in which it lies, and the walk goes on.
func Repositories(ctx context.Context, d driver.Driver) iter.Seq2[oci.Name, error] {
	valid := func(name oci.Name) bool {
		_, err := oci.ParseName(string(name))
		return err == nil
	}
	return func(yield func(oci.Name, error) bool) { repositories(ctx, d, "", valid, yield) }
}

// Everything yields the repositories by names, too, that only distribution takes
// and no request here can have: what they need, they need.
func Everything(ctx context.Context, d driver.Driver) iter.Seq2[oci.Name, error] {
	possible := func(name oci.Name) bool { return driver.ValidPath(layout.Repository(name)) }
	return func(yield func(oci.Name, error) bool) { repositories(ctx, d, "", possible, yield) }
}

func repositories(ctx context.Context, d driver.Driver, name oci.Name, wanted func(oci.Name) bool, yield func(oci.Name, error) bool) bool {
	dir, private := layout.Repositories, false
	if name != "" {
		dir = layout.Repository(name)
	}
	var children []oci.Name
	for e, err := range d.List(ctx, dir, "") {
		switch {
		case errors.Is(err, driver.ErrNotExist):
			return true
		case err != nil:
			return yield(name, err)
		case layout.Private(e.Name):
			private = true
		case e.Dir:
			if child := join(name, e.Name); wanted(child) {
				children = append(children, child)
			}
		}
	}
	if private && name != "" && !yield(name, nil) {
		return false
	}
	for _, child := range children {
		if ctx.Err() != nil {
			return yield(name, ctx.Err())
		}
		if !repositories(ctx, d, child, wanted, yield) {
			return false
		}
	}
	return true
}

func join(name oci.Name, child string) oci.Name {
	if name == "" {
		return oci.Name(child)
	}
	return name + "/" + oci.Name(child)
}

// Link is a link file. Digest is what its path says, Target what it holds.
type Link struct {
	Path    string
	Digest  oci.Digest
	Target  oci.Digest
	Changed time.Time
	Err     error // why there is no Target: layout.ErrEmptyLink, layout.ErrBadLink, or a fault of the storage
}

// Revisions yields the links of the manifests of a repository.
func Revisions(ctx context.Context, d driver.Driver, name oci.Name) iter.Seq2[Link, error] {
	return links(ctx, d, func(a oci.Algorithm) string { return layout.Revisions(name, a) },
		func(x oci.Digest) string { return layout.RevisionLink(name, x) })
}

// Layers yields the links of the blobs of a repository.
func Layers(ctx context.Context, d driver.Driver, name oci.Name) iter.Seq2[Link, error] {
	return links(ctx, d, func(a oci.Algorithm) string { return layout.Layers(name, a) },
		func(x oci.Digest) string { return layout.LayerLink(name, x) })
}

// links yields the links in directories named by digests. A directory without
// one is passed over.
func links(ctx context.Context, d driver.Driver, dir func(oci.Algorithm) string, path func(oci.Digest) string) iter.Seq2[Link, error] {
	return func(yield func(Link, error) bool) {
		for _, alg := range Algorithms() {
			for e, err := range d.List(ctx, dir(alg), "") {
				if errors.Is(err, driver.ErrNotExist) {
					break
				}
				if err != nil {
					yield(Link{Path: dir(alg)}, err)
					return
				}
				digest, err := oci.ParseDigest(string(alg) + ":" + e.Name)
				if err != nil || !e.Dir {
					continue
				}
				if l, ok := ReadLink(ctx, d, path(digest), digest); ok && !yield(l, nil) {
					return
				}
			}
		}
	}
}

// ReadLink reads a link that its path says leads to digest. ok is false if
// there is none. One that is empty is read again a little later: distribution
// 2.8 empties links before it writes them anew.
func ReadLink(ctx context.Context, d driver.Driver, path string, digest oci.Digest) (l Link, ok bool) {
	l = Link{Path: path, Digest: digest}
	for try := range 2 {
		if try > 0 {
			time.Sleep(5 * time.Millisecond)
		}
		var info driver.Info
		if info, l.Err = d.Stat(ctx, path); l.Err == nil {
			l.Changed = info.Changed
			l.Target, l.Err = content(ctx, d, path)
		}
		if !errors.Is(l.Err, layout.ErrEmptyLink) {
			break
		}
	}
	return l, !errors.Is(l.Err, driver.ErrNotExist)
}

func content(ctx context.Context, d driver.Driver, path string) (oci.Digest, error) {
	b, err := d.ReadFile(ctx, path, layout.MaxLink)
	if errors.Is(err, driver.ErrTooLarge) {
		return "", layout.ErrBadLink
	}
	if err != nil {
		return "", err
	}
	return layout.ParseLink(b)
}

// Tag is a tag and the link that says what it points at.
type Tag struct {
	Name oci.Tag
	Link
}

// Tags yields the tags of a repository.
func Tags(ctx context.Context, d driver.Driver, name oci.Name) iter.Seq2[Tag, error] {
	return func(yield func(Tag, error) bool) {
		for e, err := range d.List(ctx, layout.Tags(name), "") {
			if errors.Is(err, driver.ErrNotExist) {
				return
			}
			if err != nil {
				yield(Tag{Link: Link{Path: layout.Tags(name)}}, err)
				return
			}
			tag, err := oci.ParseTag(e.Name)
			if err != nil || !e.Dir {
				continue
			}
			if l, ok := ReadLink(ctx, d, layout.TagCurrent(name, tag), ""); ok && !yield(Tag{tag, l}, nil) {
				return
			}
		}
	}
}

// Stat describes the object at path, wherever a collector of garbage has it.
func Stat(ctx context.Context, d driver.Driver, path string) (driver.Info, error) {
	info, err := d.Stat(ctx, path)
	if errors.Is(err, driver.ErrNotExist) {
		info, err = d.Stat(ctx, layout.Aside(path))
	}
	if errors.Is(err, driver.ErrNotExist) {
		info, err = d.Stat(ctx, path)
	}
	return info, err
}

// Manifest reads a stored manifest. Errors are those of the driver, or have
// ErrDamaged or ErrNotManifest inside.
func Manifest(ctx context.Context, d driver.Driver, digest oci.Digest, limit int64) (m *oci.Manifest, size int64, err error) {
	path := layout.BlobData(digest)
	body, err := d.ReadFile(ctx, path, limit)
	if errors.Is(err, driver.ErrNotExist) {
		body, err = d.ReadFile(ctx, layout.Aside(path), limit)
	}
	if errors.Is(err, driver.ErrNotExist) {
		body, err = d.ReadFile(ctx, path, limit) // it was brought back in between, or there is none
	}
	if err != nil {
		return nil, 0, err
	}
	if digest.Algorithm().FromBytes(body) != digest {
		return nil, 0, fmt.Errorf("%w: %s", ErrDamaged, digest)
	}
	if m, err = oci.ReadManifest(body); err != nil {
		return nil, 0, fmt.Errorf("%w: %s: %w", ErrNotManifest, digest, err)
	}
	return m, int64(len(body)), nil
}

// Blobs yields the digests under which bytes are stored, strictly after one,
// sorted as strings within each algorithm.
func Blobs(ctx context.Context, d driver.Driver, after oci.Digest) iter.Seq2[oci.Digest, error] {
	return func(yield func(oci.Digest, error) bool) {
		for _, alg := range Algorithms() {
			if after != "" && alg < after.Algorithm() {
				continue
			}
			start := ""
			if after != "" && alg == after.Algorithm() {
				start = after.Hex()
			}
			if !blobs(ctx, d, alg, start, yield) {
				return
			}
		}
	}
}

func blobs(ctx context.Context, d driver.Driver, alg oci.Algorithm, after string, yield func(oci.Digest, error) bool) bool {
	root := layout.Blobs + "/" + string(alg)
	for outer, err := range d.List(ctx, root, "") {
		if errors.Is(err, driver.ErrNotExist) {
			return true
		}
		if err != nil {
			return yield("", err)
		}
		if after != "" && outer.Name < after[:2] || !outer.Dir {
			continue
		}
		for e, err := range d.List(ctx, root+"/"+outer.Name, after) {
			if errors.Is(err, driver.ErrNotExist) {
				break
			}
			if err != nil {
				return yield("", err)
			}
			digest, err := oci.ParseDigest(string(alg) + ":" + e.Name)
			if err == nil && !yield(digest, nil) {
				return false
			}
		}
	}
	return true
}
