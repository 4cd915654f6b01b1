package proxy

import (
	"context"
	"net/netip"
	"slices"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

// repository is a cache of a repository at an upstream. It answers from what is stored, and
// asks the upstream for the rest.
type repository struct {
	reg   *Registry
	src   *Source
	local registry.Repository // what is stored
}

// Puller returns the repository for clients that pull. It asks the upstream if the repository
// is a cache, and is that of the rules otherwise.
func (c *Registry) Puller(name oci.Name) registry.Puller {
	if s := c.source(name); s != nil {
		return repository{c, s, c.opts.Registry.Cached(name)}
	}
	return c.opts.Registry.Repository(name)
}

// Name implements registry.Puller.
func (r repository) Name() oci.Name { return r.local.Name() }

// Manifest implements registry.Puller.
func (r repository) Manifest(ctx context.Context, ref oci.Reference) (*registry.Manifest, error) {
	return r.manifest(ctx, ref, r.local.Manifest)
}

// StatManifest implements registry.Puller.
func (r repository) StatManifest(ctx context.Context, ref oci.Reference) (*registry.Manifest, error) {
	return r.manifest(ctx, ref, r.local.StatManifest)
}

func (r repository) manifest(ctx context.Context, ref oci.Reference, stored func(context.Context, oci.Reference) (*registry.Manifest, error)) (*registry.Manifest, error) {
	have, err := stored(ctx, ref)
	if err != nil && !registry.IsLost(err) {
		return nil, err
	}
	r.src.metrics.request(false)
	if err == nil && ref.Tag == "" {
		r.src.metrics.hit(false)
		return have, nil
	}
	m, err := r.reg.manifest(ctx, r.src, r.local, ref, have)
	if err == nil && m != have && r.reg.opts.Pulled != nil { // the rules have noted a pull of have
		r.reg.opts.Pulled(r.Name(), m.Digest)
	}
	return m, err
}

// StatBlob implements registry.Puller. It caches nothing.
func (r repository) StatBlob(ctx context.Context, d oci.Digest) (oci.Descriptor, error) {
	desc, err := r.local.StatBlob(ctx, d)
	if !registry.IsLost(err) {
		return desc, err
	}
	r.src.metrics.request(true)
	r.src.metrics.miss(true)
	size, err := r.reg.sizeOf(ctx, r.src, blobKey{r.Name(), d})
	return oci.Descriptor{MediaType: octetStream, Digest: d, Size: size}, err
}

const octetStream = "application/octet-stream"

// OpenBlob implements registry.Puller. A blob that isn't stored is read while it arrives, by
// all who want it at the same time.
func (r repository) OpenBlob(ctx context.Context, d oci.Digest) (*registry.Blob, error) {
	b, err := r.local.OpenBlob(ctx, d)
	switch {
	case err == nil:
		r.src.metrics.request(true)
		r.src.metrics.hit(true)
		return b, nil
	case !registry.IsLost(err):
		return nil, err
	}
	r.src.metrics.request(true)
	r.src.metrics.miss(true)
	return r.reg.openBlob(ctx, r.src, r.local, d)
}

// BlobURL implements registry.Puller. Clients read the blobs of caches from here: they may not
// have been stored yet.
func (r repository) BlobURL(context.Context, oci.Digest, netip.Addr) (string, oci.Descriptor, error) {
	return "", oci.Descriptor{}, nil
}

// Tags implements registry.Puller: the tags of the upstream, or those that are stored if it
// fails.
func (r repository) Tags(ctx context.Context, n int, last string) ([]string, registry.Page, error) {
	all, warning, err := r.reg.tags(ctx, r.src, r.local)
	if err != nil {
		return nil, registry.Page{}, err
	}
	page := registry.Page{Warning: warning}
	at, found := slices.BinarySearch(all, last)
	if found {
		at++
	}
	list := all[at:]
	if n >= 0 && n < len(list) {
		list = list[:n]
		if n > 0 {
			page.Next = list[n-1]
		}
	}
	return list, page, nil
}

// Bounds of a page of referrers, those of the rules.
const (
	maxReferrers      = 1000
	maxReferrersBytes = 2 << 20
)

// Referrers implements registry.Puller: those of the upstream, or those that are stored if it
// fails.
func (r repository) Referrers(ctx context.Context, subject oci.Digest, artifactType, after string, limit int) ([]oci.Descriptor, registry.Page, error) {
	all, warning, err := r.reg.referrers(ctx, r.src, r.local, subject)
	if err != nil {
		return nil, registry.Page{}, err
	}
	page, list, bytes := registry.Page{Warning: warning}, []oci.Descriptor{}, 0
	if limit <= 0 {
		limit = maxReferrers
	}
	for i := range all {
		d := &all[i]
		if string(d.Digest) <= after || artifactType != "" && d.ArtifactType != artifactType {
			continue
		}
		bytes += descriptorWeight(d)
		if len(list) == limit || len(list) > 0 && bytes > maxReferrersBytes {
			page.Next = string(list[len(list)-1].Digest)
			break
		}
		list = append(list, *d)
	}
	return list, page, nil
}
