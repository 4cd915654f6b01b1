package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry/tags"
	"slipway/registry/internal/storage"
)

// Bounds of one page of referrers, which is itself an index that clients read
// whole.
const (
	defaultReferrers  = 1000
	maxReferrersBytes = 2 << 20
	maxReferrersRead  = 32 << 20 // of manifests, whether the page has them or a filter leaves them out
)

// Referrers lists the manifests of the repository whose subject is the digest,
// at most limit (<= 0: a default) of those strictly after the digest after,
// sorted by digest. What a
// fallback tag of clients lists is among them (distribution-spec "Backwards
// Compatibility"). A repository that does not exist has none.
func (r Repository) Referrers(ctx context.Context, subject oci.Digest, artifactType, after string, limit int) (descs []oci.Descriptor, page Page, err error) {
	candidates, err := r.referrerCandidates(ctx, subject)
	if err != nil {
		return nil, page, err
	}
	if limit <= 0 {
		limit = defaultReferrers
	}
	descs = []oci.Descriptor{}
	bytes, read := 0, int64(0)
	for _, d := range candidates {
		if string(d) <= after {
			continue
		}
		if read > maxReferrersRead { // the page may be empty; clients follow its link
			return descs, page, nil
		}
		desc, ok, err := r.referrer(ctx, d)
		if err != nil {
			return nil, Page{}, err
		}
		read += desc.Size
		page.Next = string(d)
		if !ok || artifactType != "" && desc.ArtifactType != artifactType {
			continue
		}
		bytes += descriptorBytes(&desc)
		if len(descs) == limit || len(descs) > 0 && bytes > maxReferrersBytes {
			page.Next = string(descs[len(descs)-1].Digest)
			return descs, page, nil
		}
		descs = append(descs, desc)
	}
	return descs, Page{}, nil
}

// Referring returns the manifests that refer to each of the subjects, except for what only fallback tags list. It reads no more than
// Referrers does for one subject. The lists are the caller's only to read.
func (r Repository) Referring(ctx context.Context, subjects []oci.Digest) (map[oci.Digest][]oci.Digest, error) {
	found, err := r.reg.referrers.OfEach(ctx, r.name, subjects)
	return found, err
}

// referrerCandidates returns the digests that may refer to the subject, sorted.
func (r Repository) referrerCandidates(ctx context.Context, subject oci.Digest) ([]oci.Digest, error) {
	indexed, err := r.reg.referrers.Of(ctx, r.name, subject)
	if err != nil {
		return nil, err
	}
	tagged, err := r.fallback(ctx, subject)
	if err != nil || len(tagged) == 0 {
		return indexed, err
	}
	all := append(slices.Clone(indexed), tagged...)
	slices.Sort(all)
	return slices.Compact(all), nil
}

// referrer describes a candidate.
func (r Repository) referrer(ctx context.Context, d oci.Digest) (desc oci.Descriptor, ok bool, err error) {
	m, err := r.manifest(ctx, d)
	switch {
	case oci.HasCode(err, oci.CodeManifestUnknown, oci.CodeNameUnknown):
		return desc, false, nil
	case errors.Is(err, ErrDamaged):
		r.reg.log.Warn("a referrer is left out", zap.String("repository", string(r.name)), zap.Error(err))
		return desc, false, nil
	case err != nil:
		return desc, false, err
	}
	return m.Descriptor, true, nil
}

func descriptorBytes(d *oci.Descriptor) int {
	n := 200 + len(d.MediaType) + len(d.ArtifactType)
	for k, v := range d.Annotations {
		n += len(k) + len(v) + 8
	}
	return n
}

// fallback reads the tag by which clients list referrers at registries that
// cannot. Nothing that is wrong with it matters.
func (r Repository) fallback(ctx context.Context, subject oci.Digest) ([]oci.Digest, error) {
	tag := fallbackTag(subject)
	p, err := r.reg.tags.Read(ctx, r.name, tag)
	if absent(err) || tags.IsBadLink(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := r.manifest(ctx, p.Digest)
	if err != nil || m.MediaType != oci.MediaTypeIndex {
		return nil, nil //nolint:nilerr // a tag that points at nothing lists nothing
	}
	parsed, err := oci.ReadManifest(m.Bytes)
	if err != nil {
		return nil, nil //nolint:nilerr // as above
	}
	var listed []oci.Digest
	for i := range parsed.Manifests {
		listed = append(listed, parsed.Manifests[i].Digest)
	}
	return listed, nil
}

// fallbackTag returns the digest as a tag: at most 32 characters of the algorithm and
// 64 of the rest.
func fallbackTag(d oci.Digest) oci.Tag {
	hex := d.Hex()
	return oci.Tag(string(d.Algorithm()) + "-" + hex[:min(len(hex), 64)])
}

// Parents lists indexes of the repository that contain the manifest, sorted; some of them may be gone. It needs
// Options.IndexParents. An index with more than maxChildren manifests is left out.
func (r Repository) Parents(ctx context.Context, child oci.Digest) ([]oci.Digest, error) {
	parents, err := r.reg.referrers.Containing(ctx, r.name, child)
	return parents, err
}

// maxChildren bounds what is remembered of one index.
const maxChildren = 256

// linksOf returns the subject of a stored manifest, "" if it has none, and its children if these are indexed. The error is ErrNotExist
// if the manifest doesn't exist or is damaged.
func (r *Registry) linksOf(ctx context.Context, d oci.Digest) (oci.Digest, []oci.Digest, error) {
	if err := ctx.Err(); err != nil {
		return "", nil, err
	}
	m, ok := r.manifests.Get(d)
	if ok {
		return m.Subject, r.childrenOf(m), nil
	}
	m, err := r.readManifest(ctx, d)
	switch {
	case err == nil:
		return m.Subject, r.childrenOf(m), nil
	case errors.Is(err, errNotManifest):
		return "", nil, nil
	case errors.Is(err, ErrDamaged):
		return "", nil, fmt.Errorf("%w: %w", storage.ErrNotExist, err)
	}
	return "", nil, err
}

func (r *Registry) childrenOf(m *Manifest) (children []oci.Digest) {
	if !r.opts.IndexParents || !oci.IsIndex(m.MediaType) {
		return nil
	}
	parsed, err := oci.ReadManifest(m.Bytes)
	if err != nil || len(parsed.Manifests) > maxChildren {
		return nil
	}
	for i := range parsed.Manifests {
		children = append(children, parsed.Manifests[i].Digest)
	}
	return children
}
