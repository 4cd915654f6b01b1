package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// Manifest is a stored manifest. It is shared: nobody changes it.
type Manifest struct {
	oci.Descriptor            // MediaType, Digest, Size, ArtifactType, Annotations
	Bytes          []byte     // as they were pushed
	Subject        oci.Digest // "" if it has none

	seen atomic.Int64 // when its bytes were last looked at on the storage, in nanoseconds
}

// bytesTrusted is how long the bytes of a manifest in memory are taken to be on
// the storage too. Whether the manifest is in the repository is looked at each
// time; this is for hands that take away bytes alone.
const bytesTrusted = time.Second

// smallManifest is more than nearly all manifests have.
const smallManifest = 128 << 10

// Manifest returns a manifest by tag or digest and notes the pull. MANIFEST_UNKNOWN, NAME_UNKNOWN;
// a fault with ErrDamaged.
func (r Repository) Manifest(ctx context.Context, ref oci.Reference) (*Manifest, error) {
	m, err := r.lookUp(ctx, ref)
	if err == nil {
		r.reg.pulls.Note(r.name, m.Digest)
	}
	return m, err
}

func (r Repository) lookUp(ctx context.Context, ref oci.Reference) (*Manifest, error) {
	if ref.Tag == "" {
		return r.manifest(ctx, ref.Digest, toTell)
	}
	d, err := r.resolve(ctx, ref.Tag)
	if err != nil {
		return nil, err
	}
	return r.manifest(ctx, d, toRead)
}

// manifest returns a manifest by digest. That it is there is looked at each
// time; its bytes, which the digest fixes, are remembered.
func (r Repository) manifest(ctx context.Context, d oci.Digest, why purpose) (*Manifest, error) {
	if err := r.revision(ctx, d, why); err != nil {
		return nil, err
	}
	if m, ok := r.reg.manifests.get(d); ok {
		err := r.reg.lookAt(ctx, m)
		if absent(err) {
			return nil, r.revisionUnknown(d)
		}
		return m, fault(err)
	}
	m, err := r.reg.readManifest(ctx, d)
	if absent(err) {
		return nil, r.revisionUnknown(d)
	}
	if err != nil {
		return nil, fault(err)
	}
	r.reg.remember(m)
	return m, nil
}

// lookAt is nil if the bytes of a manifest in memory are on the storage, or
// were a moment ago.
func (r *Registry) lookAt(ctx context.Context, m *Manifest) error {
	now := r.now().UnixNano()
	if now-m.seen.Load() < int64(bytesTrusted) {
		return nil
	}
	_, err := r.find(ctx, layout.BlobData(m.Digest), toRead)
	if err == nil {
		m.seen.Store(now)
	}
	return err
}

// readManifest reads the manifest from the storage and holds it against its
// digest. Large ones wait for each other, since reading one takes some times
// its size in memory. Errors are those of the driver, or ErrDamaged.
func (r *Registry) readManifest(ctx context.Context, d oci.Digest) (*Manifest, error) {
	path := layout.BlobData(d)
	body, err := r.readAnywhere(ctx, path, smallManifest)
	if errors.Is(err, driver.ErrTooLarge) {
		select {
		case r.reading <- struct{}{}:
			defer func() { <-r.reading }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if m, ok := r.manifests.get(d); ok {
			return m, nil
		}
		body, err = r.readAnywhere(ctx, path, max(r.maxManifestSize, DefaultMaxManifestSize))
	}
	if err != nil {
		return nil, err
	}
	return r.decode(d, body)
}

func (r *Registry) decode(d oci.Digest, body []byte) (*Manifest, error) {
	if d.Algorithm().FromBytes(body) != d {
		return nil, fmt.Errorf("%w: manifest %s", ErrDamaged, d)
	}
	parsed, err := oci.ReadManifest(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %s", errNotManifest, d, err.Error())
	}
	r.learnFrom(parsed)
	m := r.newManifest(d, body, parsed)
	if len(body) > smallManifest {
		r.remember(m) // before the next one that waits reads it again
	}
	return m, nil
}

// newManifest is a manifest whose bytes were just read or written.
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
	r.manifests.put(m.Digest, m, weight)
}

// learnFrom notes the sizes of the blobs that a manifest lists.
func (r *Registry) learnFrom(m *oci.Manifest) {
	if m.Config != nil {
		r.learn(m.Config.Digest, m.Config.Size)
	}
	for i := range m.Layers {
		r.learn(m.Layers[i].Digest, m.Layers[i].Size)
	}
}

func (r Repository) tagUnknown(tag oci.Tag) *oci.Error {
	return oci.NewError(oci.CodeManifestUnknown, "unknown tag="+string(tag))
}

func (r Repository) revisionUnknown(d oci.Digest) *oci.Error {
	return oci.NewError(oci.CodeManifestUnknown, "unknown manifest name="+string(r.name)+" revision="+string(d))
}
