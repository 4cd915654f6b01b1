package registry

import (
	"context"
	"errors"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// ErrUpstream is inside the error of a read of what a cache does not hold and its upstream
// cannot give: the fault is not here.
var ErrUpstream = errors.New("the upstream fails")

// Upstream is what some repositories are a cache of. The repository that its methods are
// given may be written by them, though not by clients. Errors are *oci.Error, or those of
// the store.
type Upstream interface {
	// Caches says whether the repository is a cache.
	Caches(name oci.Name) bool
	// Within is the repository for a name in the namespace of another registry, such as
	// docker.io. NAME_UNKNOWN if none is a cache of that.
	Within(namespace string, name oci.Name) (oci.Name, error)
	// Manifest returns what a reference stands for. have is what the repository holds, nil
	// if that is nothing: it is returned if it is fresh enough, or nothing better is there.
	Manifest(ctx context.Context, r Repository, ref oci.Reference, have *Manifest) (*Manifest, error)
	// StatBlob describes a blob that the repository does not hold.
	StatBlob(ctx context.Context, r Repository, d oci.Digest) (oci.Descriptor, error)
	// OpenBlob opens a blob that the repository does not hold.
	OpenBlob(ctx context.Context, r Repository, d oci.Digest) (*Blob, error)
	// Tags lists the tags of the repository, sorted bytewise. The warning is for clients: ""
	// if the list is fresh enough.
	Tags(ctx context.Context, r Repository) (tags []string, warning string, err error)
	// Referrers lists what refers to the subject, sorted by digest, and warns likewise.
	Referrers(ctx context.Context, r Repository, subject oci.Digest) (descs []oci.Descriptor, warning string, err error)
	// Hit is told that a cache had a manifest by digest, or a blob. It does not wait.
	Hit(name oci.Name, blob bool)
}

// Within is the repository that clients mean by a name in a namespace: containerd says
// which registry it takes this one for.
func (r *Registry) Within(namespace string, name oci.Name) (oci.Name, error) {
	if r.opts.Upstream == nil {
		return name, nil
	}
	return r.opts.Upstream.Within(namespace, name)
}

// cached says whether the repository is a cache, for everybody but its upstream.
func (r Repository) cached() bool {
	return r.reg.opts.Upstream != nil && !r.filler && r.reg.opts.Upstream.Caches(r.name)
}

// missed says whether the error is one that an upstream can help with.
func (r Repository) missed(err error) bool {
	return err != nil && r.cached() &&
		(isCode(err, oci.CodeBlobUnknown) || isCode(err, oci.CodeManifestUnknown) || isCode(err, oci.CodeNameUnknown) || errors.Is(err, ErrDamaged))
}

// filled is the repository for its upstream.
func (r Repository) filled() Repository {
	r.filler = true
	return r
}

// Cached is the repository as its upstream knows it: it is filled, and never asks the
// upstream.
func (r *Registry) Cached(name oci.Name) Repository { return r.Repository(name).filled() }

// hit tells the upstream that it was not needed.
func (r Repository) hit(err error, blob bool) {
	if err == nil && r.cached() {
		r.reg.opts.Upstream.Hit(r.name, blob)
	}
}

// HasBytes says whether the store has the bytes of a blob, whatever repository they are in.
func (r Repository) HasBytes(ctx context.Context, d oci.Digest) bool {
	_, err := r.reg.store.Stat(ctx, layout.BlobData(d))
	return err == nil
}

// takes is nil if clients may push. UNSUPPORTED, UNAVAILABLE.
func (r Repository) takes() error {
	if err := r.writable(); err != nil {
		return err
	}
	return r.reg.hasJoined("pushes are not accepted now: ")
}

// writable is nil if clients may change the repository.
func (r Repository) writable() error {
	if r.cached() {
		return unsupported("the repository is a cache of another registry")
	}
	return r.reg.writable()
}

// deletable is nil if clients may delete from the repository.
func (r Repository) deletable() error {
	if err := r.writable(); err != nil {
		return err
	}
	if !r.reg.opts.DeleteEnabled {
		return unsupported("deletion is disabled")
	}
	return nil
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
	if err := r.takes(); err != nil {
		return m, err
	}
	err = r.reg.depend(ctx, func(s *section) error {
		return r.place(ctx, s, d, body, allTags(tag, nil), func() error { return nil })
	})
	if err != nil {
		return m, fault(err)
	}
	r.reg.claimed(parsed)
	r.reg.remember(m)
	return m, nil
}

// WithWarning is the manifest for one client, who is told something.
func (m *Manifest) WithWarning(text string) *Manifest {
	return &Manifest{Descriptor: m.Descriptor, Bytes: m.Bytes, Subject: m.Subject, Warning: text}
}

// TagModified is when a tag was last moved or confirmed; MANIFEST_UNKNOWN.
func (r Repository) TagModified(ctx context.Context, tag oci.Tag) (time.Time, error) {
	info, err := r.reg.store.Stat(ctx, layout.TagCurrent(r.name, tag))
	if absent(err) {
		return time.Time{}, r.tagUnknown(tag)
	}
	return info.Modified, fault(err)
}

// ConfirmTag notes that the tag still points at d upstream, unless it was moved meanwhile.
func (r Repository) ConfirmTag(ctx context.Context, tag oci.Tag, d oci.Digest) error {
	p, err := r.reg.tags.Read(ctx, r.name, tag)
	if err != nil || p.Version == "" || p.Digest != d {
		return fault(unlessAbsent(err))
	}
	change := storage.Change{Key: layout.TagCurrent(r.name, tag), Content: layout.Link(d), Renew: true, If: storage.IfVersion(p.Version)}
	err = r.reg.apply(ctx, nil, storage.Stage{change})
	if isConflict(err) {
		return nil
	}
	return fault(unlessAbsent(err))
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
		return false, fault(unlessAbsent(err))
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
		return false, fault(err)
	}
	change := storage.Change{Key: link, Delete: true}
	if info.Version != "" {
		change.If = storage.IfVersion(info.Version)
	}
	err = r.reg.apply(ctx, nil, storage.Stage{change})
	if isConflict(err) {
		return false, nil
	}
	return err == nil, fault(err)
}

// ForgetTag removes a tag from a cache.
func (r Repository) ForgetTag(ctx context.Context, tag oci.Tag) error {
	p, err := r.reg.tags.Read(ctx, r.name, tag)
	if err != nil {
		return fault(unlessAbsent(err))
	}
	_, err = r.DeleteTagIf(ctx, tag, "", p.Version)
	return err
}
