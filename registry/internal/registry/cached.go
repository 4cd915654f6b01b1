package registry

import (
	"context"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// Cached returns the repository for the pull-through cache that fills it: quotas don't count
// it, its tags move whatever rule there is, and have no push date.
func (r *Registry) Cached(name oci.Name) Repository {
	repo := r.Repository(name)
	repo.filler = true
	return repo
}

// HasBytes reports whether the store has the bytes of a blob, whatever repository they are in.
func (r Repository) HasBytes(ctx context.Context, d oci.Digest) bool {
	_, err := r.reg.store.Stat(ctx, layout.BlobData(d))
	return err == nil
}

// CacheManifest stores a manifest of the upstream as it is, before what it refers to, and
// has the tag, if it is not "", point at it. The manifest is returned also beside an error,
// which says that it could not be stored.
func (r Repository) CacheManifest(ctx context.Context, d oci.Digest, body []byte, tag oci.Tag) (*Manifest, error) {
	parsed, err := oci.ReadManifest(body)
	if err != nil {
		return nil, err
	}
	m := r.reg.newManifest(d, body, parsed)
	if err := r.writable(); err != nil {
		return m, err
	}
	err = r.try(ctx, func(r Repository) error {
		return r.storeManifest(ctx, d, body, allTags(tag, nil), func() error { return nil })
	})
	if err != nil {
		return m, err
	}
	r.reg.remember(m)
	return m, nil
}

// WithWarning is the manifest for one client, who is told something.
func (m *Manifest) WithWarning(text string) *Manifest {
	return &Manifest{Descriptor: m.Descriptor, Bytes: m.Bytes, Subject: m.Subject, Warning: text}
}

// TagModified returns the time at which a tag was last moved or confirmed; MANIFEST_UNKNOWN.
func (r Repository) TagModified(ctx context.Context, tag oci.Tag) (time.Time, error) {
	info, err := r.reg.store.Stat(ctx, layout.TagCurrent(r.name, tag))
	if absent(err) {
		return time.Time{}, r.tagUnknown(tag)
	}
	return info.Modified, err
}

// ConfirmTag notes that the tag still points at d upstream, unless it was moved meanwhile.
func (r Repository) ConfirmTag(ctx context.Context, tag oci.Tag, d oci.Digest) error {
	p, err := r.reg.tags.Read(ctx, r.name, tag)
	if err != nil || p.Version == "" || p.Digest != d {
		return unlessAbsent(err)
	}
	change := storage.Change{Key: layout.TagCurrent(r.name, tag), Renew: true, If: storage.IfVersion(p.Version)}
	err = r.apply(ctx, storage.Stage{change})
	if isConflict(err) {
		return nil
	}
	return unlessAbsent(err)
}

// Evict removes a manifest from a cache, with the tags that point at it. What it needs is
// left to the garbage collection. Nothing is removed of what came again since the time.
func (r Repository) Evict(ctx context.Context, d oci.Digest, tagged []oci.Tag, unused time.Time) (removed bool, err error) {
	if err := r.writable(); err != nil {
		return false, err
	}
	link := layout.RevisionLink(r.name, d)
	info, err := r.reg.store.Stat(ctx, link)
	if err != nil || info.Modified.After(unused) {
		return false, unlessAbsent(err)
	}
	ctx, cancel := detach(ctx)
	defer cancel()
	at := pointers{}
	for _, tag := range tagged {
		if p, err := r.reg.tags.Read(ctx, r.name, tag); err == nil && p.Digest == d {
			at[tag] = p
		}
	}
	if _, err := r.deleteUnmoved(ctx, at, nil); err != nil {
		return false, err
	}
	change := storage.Change{Key: link, Delete: true}
	if info.Version != "" {
		change.If = storage.IfVersion(info.Version)
	}
	err = r.apply(ctx, storage.Stage{change})
	if isConflict(err) {
		return false, nil
	}
	return err == nil, err
}

// ForgetTag removes a tag from a cache.
func (r Repository) ForgetTag(ctx context.Context, tag oci.Tag) error {
	p, err := r.reg.tags.Read(ctx, r.name, tag)
	if err != nil {
		return unlessAbsent(err)
	}
	_, err = r.DeleteTagIf(ctx, tag, "", p.Version)
	return err
}
