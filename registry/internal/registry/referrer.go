package registry

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/tree"
)

// Bounds of one page of referrers, which is itself an index that clients read
// whole.
const (
	defaultReferrers  = 1000
	maxReferrersBytes = 2 << 20
)

// Referrers lists the manifests of the repository whose subject is the digest,
// at most limit (<= 0: a default) of those strictly after the digest after,
// sorted by digest. What a
// fallback tag of clients lists is among them (distribution-spec "Backwards
// Compatibility"). A repository that does not exist has none.
func (r Repository) Referrers(ctx context.Context, subject oci.Digest, artifactType, after string, limit int) (descs []oci.Descriptor, page Page, err error) {
	candidates, describe, warning, err := r.listReferrers(ctx, subject)
	if err != nil {
		return nil, page, err
	}
	page.Warning = warning
	if limit <= 0 {
		limit = defaultReferrers
	}
	descs = []oci.Descriptor{}
	bytes := 0
	for _, d := range candidates {
		if string(d) <= after {
			continue
		}
		desc, ok, err := describe(ctx, d)
		if err != nil {
			return nil, Page{}, err
		}
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
	return descs, page, nil
}

// listReferrers is the digests that may refer to the subject, sorted, and what describes
// them: those of the repository, or of what it is a cache of.
func (r Repository) listReferrers(ctx context.Context, subject oci.Digest) (candidates []oci.Digest, describe describer, warning string, err error) {
	if !r.cached() {
		candidates, err = r.referrerCandidates(ctx, subject)
		return candidates, r.referrer, "", err
	}
	list, warning, err := r.reg.opts.Upstream.Referrers(ctx, r.filled(), subject)
	if err != nil {
		return nil, nil, "", fault(err)
	}
	digests, described := make([]oci.Digest, len(list)), make(map[oci.Digest]oci.Descriptor, len(list))
	for i := range list {
		digests[i], described[list[i].Digest] = list[i].Digest, list[i]
	}
	describe = func(_ context.Context, d oci.Digest) (oci.Descriptor, bool, error) { return described[d], true, nil }
	return digests, describe, warning, nil
}

// describer describes a referrer; ok is false if it is not there any more.
type describer func(ctx context.Context, d oci.Digest) (desc oci.Descriptor, ok bool, err error)

// referrerCandidates is the digests that may refer to the subject, sorted.
func (r Repository) referrerCandidates(ctx context.Context, subject oci.Digest) ([]oci.Digest, error) {
	indexed, err := r.referrerIndex().of(ctx, r, subject)
	if err != nil {
		return nil, fault(err)
	}
	tagged, err := r.fallback(ctx, subject)
	if err != nil || len(tagged) == 0 {
		return indexed, err
	}
	all := append(slices.Clone(indexed), tagged...)
	slices.Sort(all)
	return slices.Compact(all), nil
}

// referrerIndex is the one that is remembered, or a new one. Requests at the same time
// get the same, and wait for the first one to read it.
func (r Repository) referrerIndex() *referrerIndex {
	r.reg.indexing.Lock()
	defer r.reg.indexing.Unlock()
	index, ok := r.reg.referrers.get(r.name)
	if !ok {
		index = newReferrerIndex()
		r.reg.referrers.put(oci.Name(strings.Clone(string(r.name))), index, 0)
	}
	return index
}

// referrer describes a candidate.
func (r Repository) referrer(ctx context.Context, d oci.Digest) (desc oci.Descriptor, ok bool, err error) {
	m, err := r.manifest(ctx, nil, d)
	switch {
	case isCode(err, oci.CodeManifestUnknown) || isCode(err, oci.CodeNameUnknown):
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
	p, err := r.readTag(ctx, tag)
	if absent(err) || isBadLink(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fault(err)
	}
	m, err := r.manifest(ctx, nil, p.digest)
	if err != nil || m.MediaType != oci.MediaTypeIndex {
		return nil, nil //nolint:nilerr // a tag that points at nothing lists nothing
	}
	parsed, err := oci.ReadManifest(m.Bytes)
	if err != nil {
		return nil, nil //nolint:nilerr // as above
	}
	var listed []oci.Digest
	for i := range parsed.Manifests {
		if d, err := oci.ParseDigest(string(parsed.Manifests[i].Digest)); err == nil {
			listed = append(listed, d)
		}
	}
	return listed, nil
}

// fallbackTag is the digest as a tag: at most 32 characters of the algorithm and
// 64 of the rest.
func fallbackTag(d oci.Digest) oci.Tag {
	hex := d.Hex()
	return oci.Tag(string(d.Algorithm()) + "-" + hex[:min(len(hex), 64)])
}

// referrerIndex is what the manifests of a repository have as subjects. It is
// made of the store when it is first asked for, and read on from there: the
// subject of a digest never changes, so only new digests are read. Whether a
// manifest is still there is looked at when it is listed.
type referrerIndex struct {
	mu        sync.Mutex
	read      map[oci.Algorithm]*listing
	unread    []oci.Digest // revisions whose manifest was not there
	bySubject map[oci.Digest][]oci.Digest
	entries   int
}

var noListing = &listing{}

func newReferrerIndex() *referrerIndex {
	return &referrerIndex{read: map[oci.Algorithm]*listing{}, bySubject: map[oci.Digest][]oci.Digest{}}
}

// of returns the digests whose subject is the given one, sorted. The slice is
// the caller's only to read.
func (x *referrerIndex) of(ctx context.Context, r Repository, subject oci.Digest) ([]oci.Digest, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	changed, err := x.refresh(ctx, r)
	if changed {
		r.reg.referrers.put(oci.Name(strings.Clone(string(r.name))), x, x.weight())
	} else if len(x.read) == 0 {
		r.reg.referrers.forget(r.name) // nothing was read, and anybody may ask for what does not exist
	}
	return x.bySubject[subject], err
}

// refresh reads what is new in the store. What it cannot read now it reads the
// next time.
func (x *referrerIndex) refresh(ctx context.Context, r Repository) (changed bool, err error) {
	retry := x.unread
	x.unread = nil
	if err := x.add(ctx, r, retry); err != nil {
		return false, err
	}
	for _, alg := range tree.Algorithms() {
		now, err := r.reg.list(ctx, layout.Revisions(r.name, alg))
		if err != nil {
			return changed, err
		}
		if len(now.names) == 0 {
			now = noListing
		}
		before := x.read[alg]
		if before == nil {
			before = noListing
		}
		if before == now {
			continue
		}
		x.read[alg], changed = now, true
		x.forget(digests(alg, missingFrom(before.names, now.names)))
		if err := x.add(ctx, r, digests(alg, missingFrom(now.names, before.names))); err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// add reads the manifests. What it has read when it fails counts, and the rest is
// read the next time.
func (x *referrerIndex) add(ctx context.Context, r Repository, ds []oci.Digest) error {
	found := map[oci.Digest][]oci.Digest{}
	defer x.take(found)
	for i, d := range ds {
		subject, err := r.reg.subjectOf(ctx, d)
		switch {
		case absent(err) || errors.Is(err, ErrDamaged):
			x.unread = append(x.unread, d)
		case errors.Is(err, errNotManifest):
		case err != nil:
			x.unread = append(x.unread, ds[i:]...)
			return err
		case subject != "":
			found[subject] = append(found[subject], d)
		}
	}
	return nil
}

// take adds manifests by their subjects. Lists that were handed out are not
// touched.
func (x *referrerIndex) take(found map[oci.Digest][]oci.Digest) {
	for subject, more := range found {
		all := append(slices.Clip(x.bySubject[subject]), more...)
		slices.Sort(all)
		x.bySubject[subject] = slices.Compact(all)
		x.entries += len(more)
	}
}

// forget drops manifests that have vanished.
func (x *referrerIndex) forget(ds []oci.Digest) {
	if len(ds) == 0 {
		return
	}
	gone := make(map[oci.Digest]bool, len(ds))
	for _, d := range ds {
		gone[d] = true
	}
	x.unread = slices.DeleteFunc(x.unread, func(d oci.Digest) bool { return gone[d] })
	for subject, list := range x.bySubject {
		left := slices.DeleteFunc(slices.Clone(list), func(d oci.Digest) bool { return gone[d] })
		x.bySubject[subject] = left
		if len(left) == 0 {
			delete(x.bySubject, subject)
		}
	}
}

// subjectOf is the subject of a stored manifest, "" if it has none.
func (r *Registry) subjectOf(ctx context.Context, d oci.Digest) (oci.Digest, error) {
	if m, ok := r.manifests.get(d); ok {
		return m.Subject, ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	m, err := r.readManifest(ctx, d)
	if err != nil {
		return "", err
	}
	return m.Subject, nil
}

func (x *referrerIndex) weight() int64 {
	w := 512 + 300*int64(x.entries) + 100*int64(len(x.unread))
	for _, l := range x.read {
		w += 100 * int64(len(l.names))
	}
	return w
}

// missingFrom is what is in names and not in other; both are sorted.
func missingFrom(names, other []string) []string {
	var missing []string
	for _, name := range names {
		for len(other) > 0 && other[0] < name {
			other = other[1:]
		}
		if len(other) == 0 || other[0] != name {
			missing = append(missing, name)
		}
	}
	return missing
}

func digests(alg oci.Algorithm, hex []string) []oci.Digest {
	var ds []oci.Digest
	for _, h := range hex {
		if d, err := oci.ParseDigest(string(alg) + ":" + h); err == nil {
			ds = append(ds, d)
		}
	}
	return ds
}
