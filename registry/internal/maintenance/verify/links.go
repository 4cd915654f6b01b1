package verify

import (
	"context"
	"errors"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// repository verifies the links of one repository, each after those that it leads to: a repair may take them away.
func (v *verification) repository(ctx context.Context, name oci.Name) error {
	v.report.Repositories++
	v.Progress.Repositories.Add(1)
	var manifests []tree.Link
	for link, err := range tree.Revisions(ctx, v.Store, name) {
		if err != nil {
			return err
		}
		if v.link(ctx, Finding{Repository: name}, link, false) {
			manifests = append(manifests, link)
		}
	}
	for link, err := range tree.Layers(ctx, v.Store, name) {
		if err != nil {
			return err
		}
		if v.link(ctx, Finding{Repository: name}, link, true) && !v.stored(ctx, layout.BlobData(link.Target)) {
			v.dangling(ctx, Finding{Kind: DanglingLayer, Repository: name, Digest: link.Target, Path: link.Key}, link)
		}
	}
	has := map[oci.Digest]bool{} // blobs that were looked for
	for _, link := range manifests {
		v.manifest(ctx, name, link, has)
	}
	for tag, err := range tree.Tags(ctx, v.Store, name) {
		if err != nil {
			return err
		}
		v.report.Tags++
		if v.link(ctx, Finding{Repository: name, Tag: tag.Name}, tag.Link, true) {
			v.tag(ctx, name, tag)
		}
	}
	return ctx.Err()
}

// link reports whether a link holds a digest: that of its path, unless it may be an
// alias.
func (v *verification) link(ctx context.Context, f Finding, l tree.Link, alias bool) bool {
	switch {
	case errors.Is(l.Err, layout.ErrEmptyLink), errors.Is(l.Err, layout.ErrBadLink):
		f.Detail = l.Err.Error()
	case l.Err != nil:
		v.unreadable(ctx, f, l.Err)
		return false
	case !alias && l.Target != l.Digest:
		f.Detail = "it leads to " + string(l.Target)
	default:
		return true
	}
	f.Kind, f.Digest, f.Path = BadLink, l.Digest, l.Key
	v.dangling(ctx, f, l)
	return false
}

// dangling records a link that leads nowhere, if it is still what it was.
func (v *verification) dangling(ctx context.Context, f Finding, l tree.Link) {
	if _, err := v.stat(ctx, l.Key); err != nil {
		return
	}
	now, ok := tree.ReadLink(ctx, v.Store, l.Key, l.Digest)
	if ok && now.Target == l.Target && now.Modified.Equal(l.Modified) && (l.Version == "" || now.Version == l.Version) {
		v.found(ctx, f, &now.Info)
	}
}

// stored reports whether there is an object at key. If the storage fails, it counts as
// stored.
func (v *verification) stored(ctx context.Context, key string) bool {
	_, err := v.Store.Stat(ctx, key)
	return !absent(err)
}

func (v *verification) tag(ctx context.Context, name oci.Name, tag tree.Tag) {
	if v.stored(ctx, layout.RevisionLink(name, tag.Target)) && v.stored(ctx, layout.BlobData(tag.Target)) {
		return
	}
	v.dangling(ctx, Finding{Kind: DanglingTag, Repository: name, Tag: tag.Name, Digest: tag.Target, Path: tag.Key}, tag.Link)
}

// manifest verifies that the repository has all that a manifest needs. Its own
// bytes are verified among the blobs.
func (v *verification) manifest(ctx context.Context, name oci.Name, link tree.Link, has map[oci.Digest]bool) {
	v.report.Manifests++
	v.Progress.Manifests.Add(1)
	m, _, err := tree.Manifest(ctx, v.Store, link.Digest)
	switch {
	case absent(err):
		v.dangling(ctx, Finding{Kind: DanglingManifest, Repository: name, Digest: link.Digest, Path: link.Key}, link)
		return
	case errors.Is(err, tree.ErrDamaged):
		return
	case errors.Is(err, tree.ErrNotManifest), errors.Is(err, storage.ErrTooLarge):
		v.found(ctx, Finding{Kind: NotManifest, Repository: name, Digest: link.Digest, Detail: err.Error()}, nil)
		return
	case err != nil:
		v.unreadable(ctx, Finding{Repository: name, Digest: link.Digest}, err)
		return
	}
	if v.Partial != nil && v.Partial(name) {
		return
	}
	if m.Config != nil {
		v.needsBlob(ctx, name, link.Digest, m.Config, has)
	}
	for i := range m.Layers {
		if l := &m.Layers[i]; oci.IsManifest(l.MediaType) {
			v.needsManifest(ctx, name, link.Digest, l)
		} else if !oci.NonDistributable(l.MediaType) || len(l.URLs) == 0 {
			v.needsBlob(ctx, name, link.Digest, l, has)
		}
	}
	for i := range m.Manifests {
		if l := &m.Manifests[i]; oci.IsManifest(l.MediaType) || v.Sparse {
			v.needsManifest(ctx, name, link.Digest, l)
		} else {
			v.needsEither(ctx, name, link.Digest, l, has)
		}
	}
}

// needsEither is for what an index lists under another type than those of
// manifests: a blob, as in the caches of BuildKit, or a manifest.
func (v *verification) needsEither(ctx context.Context, name oci.Name, by oci.Digest, d *oci.Descriptor, has map[oci.Digest]bool) {
	if v.stored(ctx, layout.RevisionLink(name, d.Digest)) {
		v.needsManifest(ctx, name, by, d)
		return
	}
	v.needsBlob(ctx, name, by, d, has)
}

func (v *verification) needsBlob(ctx context.Context, name oci.Name, by oci.Digest, d *oci.Descriptor, has map[oci.Digest]bool) {
	if has[d.Digest] {
		return
	}
	has[d.Digest] = true
	detail := ""
	switch {
	case !v.stored(ctx, layout.LayerLink(name, d.Digest)):
		detail = "the repository has no link to it"
	case !v.reaches(ctx, name, d.Digest):
		detail = "it is not stored"
	default:
		return
	}
	v.missing(ctx, Finding{Kind: MissingBlob, Repository: name, Digest: d.Digest, By: by, Detail: detail})
}

// reaches reports whether the link to a blob leads to one that is stored.
func (v *verification) reaches(ctx context.Context, name oci.Name, d oci.Digest) bool {
	if v.stored(ctx, layout.BlobData(d)) {
		return true
	}
	l, ok := tree.ReadLink(ctx, v.Store, layout.LayerLink(name, d), d)
	return ok && l.Err == nil && l.Target != d && v.stored(ctx, layout.BlobData(l.Target))
}

func (v *verification) needsManifest(ctx context.Context, name oci.Name, by oci.Digest, d *oci.Descriptor) {
	if v.Sparse || v.stored(ctx, layout.RevisionLink(name, d.Digest)) && v.stored(ctx, layout.BlobData(d.Digest)) || v.stored(ctx, layout.LayerLink(name, d.Digest)) {
		return
	}
	v.missing(ctx, Finding{Kind: MissingManifest, Repository: name, Digest: d.Digest, By: by})
}

// missing records what a manifest lacks, unless the manifest itself has gone.
func (v *verification) missing(ctx context.Context, f Finding) {
	if v.stored(ctx, layout.RevisionLink(f.Repository, f.By)) {
		v.found(ctx, f, nil)
	}
}
