package registry

import (
	"context"
	"fmt"
	"slices"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// PutResult tells what a push of a manifest did.
type PutResult struct {
	Descriptor oci.Descriptor
	Subject    oci.Digest // "" if it has none
	Tags       []oci.Tag
}

// PutManifest stores a manifest under ref and, beside that, under tags. The
// bytes are kept as they are, and put in place over what lies there: so a push
// repairs a damaged manifest. A tag points at its new manifest only after all
// of that is durable. The registry keeps body: the caller changes it no more.
//
// Errors: MANIFEST_INVALID (with ErrManifestTooLarge inside for an oversize
// one), DIGEST_INVALID, DENIED for a class that may not be pushed and (with
// ErrImmutable inside) for a tag that may not be moved, and
// MANIFEST_BLOB_UNKNOWN for each thing that the manifest refers to and the
// repository has not.
func (r Repository) PutManifest(ctx context.Context, ref oci.Reference, mediaType string, body []byte, tags []oci.Tag) (PutResult, error) {
	if err := r.reg.takes(ctx); err != nil {
		return PutResult{}, err
	}
	d, err := r.reg.acceptBody(ref.Digest, body)
	if err != nil {
		return PutResult{}, err
	}
	parsed, err := oci.ParseManifest(mediaType, body)
	if err != nil {
		return PutResult{}, err
	}
	if err := r.reg.validation.checkClass(parsed); err != nil {
		return PutResult{}, err
	}
	tags = allTags(ref.Tag, tags)
	defer r.lockForPush(tags)()
	if err := r.refuseMove(ctx, d, tags); err != nil {
		return PutResult{}, err
	}
	if err := r.place(ctx, d, body, parsed, tags); err != nil {
		return PutResult{}, err
	}
	r.reg.learnFrom(parsed)
	m := r.reg.newManifest(d, body, parsed)
	r.reg.remember(m)
	return PutResult{Descriptor: m.Descriptor, Subject: m.Subject, Tags: tags}, nil
}

// place puts the manifest in place if the repository has all that it refers to.
// From the look until the manifest is seen, nothing of that is collected: that is
// what the section is for.
func (r Repository) place(ctx context.Context, d oci.Digest, body []byte, parsed *oci.Manifest, tags []oci.Tag) error {
	leave, err := r.reg.driver.Enter(ctx)
	if err != nil {
		return fault(err)
	}
	defer leave()
	if err := r.checkReferences(ctx, parsed); err != nil {
		return err
	}
	before := r.moved(ctx, d, tags)
	r.promiseManifest(ctx, d, tags)
	r.noteTarget(d, tags)
	if err := r.reg.commit(ctx, r.manifestStages(d, body, tags)...); err != nil {
		return fault(err)
	}
	r.noteOwn(ctx, d)
	r.usePromises(parsed)
	for _, d := range before {
		r.releasePromises(context.WithoutCancel(ctx), d, maxDepth)
	}
	return nil
}

// acceptBody checks what can be checked before the body is parsed, and returns
// its digest: of the algorithm that the reference names, else the canonical.
func (r *Registry) acceptBody(want oci.Digest, body []byte) (oci.Digest, error) {
	if int64(len(body)) > r.maxManifestSize {
		return "", &oci.Error{
			Code: oci.CodeManifestInvalid, Err: ErrManifestTooLarge,
			Detail: fmt.Sprintf("the manifest is larger than %d bytes", r.maxManifestSize),
		}
	}
	if want == "" {
		return oci.SHA256.FromBytes(body), nil
	}
	if got := want.Algorithm().FromBytes(body); got != want {
		return "", oci.NewError(oci.CodeDigestInvalid, fmt.Sprintf("the manifest is not that of %s but of %s", want, got))
	}
	return want, nil
}

// manifestStages writes what distribution writes, pointers after what they
// point at: bytes, revision and history first, then the tags.
func (r Repository) manifestStages(d oci.Digest, body []byte, tags []oci.Tag) []driver.Stage {
	link := layout.Link(d)
	content := driver.Stage{
		{Path: layout.BlobData(d), Content: body},
		{Path: layout.RevisionLink(r.name, d), Content: link},
	}
	var pointers driver.Stage
	for _, tag := range tags {
		content = append(content, driver.Change{Path: layout.TagIndex(r.name, tag, d), Content: link, Like: layout.RevisionLink(r.name, d)})
		// Not like the others: distribution 2.8 moves a tag by writing into this file.
		pointers = append(pointers, driver.Change{Path: layout.TagCurrent(r.name, tag), Content: link})
	}
	if pointers == nil {
		return []driver.Stage{content}
	}
	return []driver.Stage{content, pointers}
}

// allTags is tag, if there is one, and more, each once.
func allTags(tag oci.Tag, more []oci.Tag) []oci.Tag {
	var all []oci.Tag
	for _, t := range append([]oci.Tag{tag}, more...) {
		if t != "" && !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all
}
