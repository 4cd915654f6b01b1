package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// Manifest is a stored manifest. It is shared and must not be modified.
type Manifest struct {
	oci.Descriptor            // MediaType, Digest, Size, ArtifactType, Annotations
	Bytes          []byte     // as they were pushed
	Subject        oci.Digest // "" if it has none
	Warning        string     // that a client is told, "" if there is none

	seen atomic.Int64 // when its bytes were last looked for in the store, in nanoseconds
}

// bytesTrusted is the time for which bytes that were seen in the store are taken to be there: those of a
// manifest in memory, and on a remote store those of a blob. The repository's link, which keeps
// them, is read each time; the limit is for operators who remove bytes alone.
const bytesTrusted = time.Second

// smallManifest is more than nearly all manifests have.
const smallManifest = 128 << 10

// Manifest returns a manifest by tag or digest and reports the pull. A pull renews
// nothing: what it reads may be collected meanwhile. The error is MANIFEST_UNKNOWN or NAME_UNKNOWN if
// the manifest doesn't exist, and wraps ErrDamaged if it is damaged.
func (r Repository) Manifest(ctx context.Context, ref oci.Reference) (*Manifest, error) {
	return r.pull(ctx, ref, r.find)
}

// Peek returns a manifest like Manifest, but doesn't count as a pull. The pages use it.
func (r Repository) Peek(ctx context.Context, ref oci.Reference) (*Manifest, error) {
	return r.find(ctx, ref)
}

// PeekSize is [Repository.Peek] for callers that need no more than the size: it reads nothing.
func (r Repository) PeekSize(ctx context.Context, d oci.Digest) (int64, error) {
	if err := r.revision(ctx, d); absent(err) {
		return 0, r.unknown(ctx, r.revisionUnknown(d))
	} else if err != nil {
		return 0, err
	}
	info, err := r.reg.store.Stat(ctx, layout.BlobData(d))
	if absent(err) {
		return 0, r.revisionUnknown(d)
	}
	return info.Size, err
}

// StatManifest returns a manifest for clients that ask whether it exists: a manifest by digest
// is kept for the grace period.
func (r Repository) StatManifest(ctx context.Context, ref oci.Reference) (*Manifest, error) {
	if ref.Tag != "" {
		return r.Manifest(ctx, ref)
	}
	return r.pull(ctx, ref, func(ctx context.Context, ref oci.Reference) (m *Manifest, err error) {
		err = r.advertise(ctx, func(r Repository) error {
			m, err = r.manifest(ctx, ref.Digest)
			return err
		})
		return m, err
	})
}

func (r Repository) pull(ctx context.Context, ref oci.Reference, look func(context.Context, oci.Reference) (*Manifest, error)) (m *Manifest, err error) {
	m, err = look(ctx, ref)
	if err == nil {
		r.reg.opts.Pulled(r.name, m.Digest)
	}
	return m, err
}

func (r Repository) find(ctx context.Context, ref oci.Reference) (*Manifest, error) {
	d := ref.Digest
	if ref.Tag != "" {
		var err error
		if d, err = r.resolve(ctx, ref.Tag); err != nil {
			return nil, err
		}
	}
	return r.manifest(ctx, d)
}

// manifest returns a manifest by digest. Its existence is checked each
// time; its bytes, which the digest fixes, are remembered.
func (r Repository) manifest(ctx context.Context, d oci.Digest) (*Manifest, error) {
	content := storage.Ahead(r.reg.store.Remote, func() (*Manifest, error) { return r.reg.content(ctx, d) })
	if err := r.revision(ctx, d); absent(err) {
		return nil, r.unknown(ctx, r.revisionUnknown(d))
	} else if err != nil {
		return nil, err
	}
	m, err := content()
	if absent(err) {
		return nil, r.revisionUnknown(d)
	}
	return m, err
}

// revision returns nil if the repository has the manifest. The error is that of the
// store.
func (r Repository) revision(ctx context.Context, d oci.Digest) error {
	_, err := r.rely(ctx, layout.RevisionLink(r.name, d))
	return err
}

// content returns a manifest whatever repository has it. The error is that of the
// store, or ErrDamaged, or errNotManifest.
func (r *Registry) content(ctx context.Context, d oci.Digest) (*Manifest, error) {
	m, ok := r.manifests.Get(d)
	r.opts.Looked(ok)
	if ok {
		return m, r.confirm(ctx, m)
	}
	m, err := r.readManifest(ctx, d)
	if err == nil {
		r.remember(m)
	}
	return m, err
}

// confirm returns nil if the bytes of a manifest in memory are in the store, or were a
// moment ago.
func (r *Registry) confirm(ctx context.Context, m *Manifest) error {
	now := r.now().UnixNano()
	if now-m.seen.Load() < int64(bytesTrusted) {
		return nil
	}
	_, err := r.store.Stat(ctx, layout.BlobData(m.Digest))
	if err == nil {
		m.seen.Store(now)
	}
	return err
}

// readManifest reads the manifest from the store and compares it with its digest.
// Large ones wait for each other, since reading one takes some times its size in
// memory.
func (r *Registry) readManifest(ctx context.Context, d oci.Digest) (*Manifest, error) {
	key := layout.BlobData(d)
	body, _, err := storage.Read(ctx, r.store, key, smallManifest)
	if errors.Is(err, storage.ErrTooLarge) {
		select {
		case r.reading <- struct{}{}:
			defer func() { <-r.reading }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if m, ok := r.manifests.Get(d); ok {
			return m, nil
		}
		body, _, err = storage.Read(ctx, r.store, key, max(r.maxManifestSize, DefaultMaxManifestSize))
	}
	if err != nil {
		return nil, err
	}
	m, err := r.decode(d, body)
	if err == nil && len(body) > smallManifest {
		r.remember(m) // before the next one that waits reads it again
	}
	return m, err
}

func (r *Registry) decode(d oci.Digest, body []byte) (*Manifest, error) {
	if d.Algorithm().FromBytes(body) != d {
		return nil, fmt.Errorf("%w: manifest %s", ErrDamaged, d)
	}
	parsed, err := oci.ReadManifest(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %s", errNotManifest, d, err.Error())
	}
	return r.newManifest(d, body, parsed), nil
}

// newManifest returns a manifest whose bytes were just read or written.
func (r *Registry) newManifest(d oci.Digest, body []byte, parsed *oci.Manifest) *Manifest {
	m := &Manifest{Descriptor: parsed.Descriptor(oci.Digest(strings.Clone(string(d))), int64(len(body))), Bytes: body}
	if parsed.Subject != nil {
		m.Subject = parsed.Subject.Digest
	}
	m.seen.Store(r.now().UnixNano())
	return m
}

// remember keeps the manifest in memory.
func (r *Registry) remember(m *Manifest) {
	weight := int64(len(m.Bytes)) + 512
	for k, v := range m.Annotations {
		weight += int64(len(k)+len(v)) + 64
	}
	r.manifests.Put(m.Digest, m, weight)
}

func (r Repository) revisionUnknown(d oci.Digest) *oci.Error {
	return oci.NewError(oci.CodeManifestUnknown, "unknown manifest name="+string(r.name)+" revision="+string(d))
}
