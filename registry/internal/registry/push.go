package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// PutResult describes what a push of a manifest did.
type PutResult struct {
	Descriptor oci.Descriptor
	Subject    oci.Digest // "" if it has none
	Tags       []oci.Tag
}

// PutManifest stores a manifest under ref and also under tags. The
// bytes are kept as they are, and put in place over what is there: so a push
// repairs a damaged manifest. A tag points at its new manifest only after all
// of that is durable. The registry keeps body: the caller must not modify it.
//
// Errors: MANIFEST_INVALID (with ErrManifestTooLarge inside for an oversize
// one), DIGEST_INVALID, DENIED for a class that may not be pushed (see
// [Repository.OfClasses]) and (with ErrImmutable inside) for a tag that may not be moved, and
// MANIFEST_BLOB_UNKNOWN for each thing that the manifest refers to and the
// repository does not have.
func (r Repository) PutManifest(ctx context.Context, ref oci.Reference, mediaType string, body []byte, tags []oci.Tag) (PutResult, error) {
	if err := r.writable(); err != nil {
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
	if err := r.reg.opts.Validation.CheckClass(parsed, r.classes); err != nil {
		return PutResult{}, err
	}
	tags = allTags(ref.Tag, tags)
	stored := func() bool { return r.revision(ctx, d) == nil }
	err = r.try(ctx, func(r Repository) error {
		return r.storeManifest(ctx, d, body, tags, func() error { return r.checkReferences(ctx, parsed, stored) })
	})
	if err != nil {
		return PutResult{}, fault(err)
	}
	m := r.reg.newManifest(d, body, parsed)
	r.reg.remember(m)
	return PutResult{Descriptor: m.Descriptor, Subject: m.Subject, Tags: tags}, nil
}

// storeManifest stores the manifest if check finds all that it refers to: the bytes,
// revision and history that distribution also writes, and then the tags. ErrExpired or
// errOvertaken ask for another attempt.
func (r Repository) storeManifest(ctx context.Context, d oci.Digest, body []byte, tags []oci.Tag, check func() error) error {
	defer r.reg.opts.Changed(r.name)
	pointers, err := r.movePointers(ctx, d, tags)
	if err != nil {
		return err
	}
	records := storage.Ahead(r.reg.store.Remote, func() (storage.Stage, error) { return r.pushRecords(ctx, d, tags) })
	if err := check(); err != nil {
		return err
	}
	pushed, err := records()
	if err != nil {
		return err
	}
	link, revision := layout.Link(d), layout.RevisionLink(r.name, d)
	charged, err := r.charge(ctx, revision, int64(len(body)))
	if err != nil {
		return err
	}
	defer charged.Keep()
	content := storage.Stage{{Key: layout.BlobData(d), Content: body}, {Key: revision, Content: link}}
	for _, tag := range tags {
		content = append(content, storage.Change{Key: layout.TagIndex(r.name, tag, d), Content: link})
	}
	content = append(content, pushed...)
	if len(pointers) == 0 {
		return r.apply(ctx, content)
	}
	if err := r.apply(ctx, content, pointers); err != nil {
		if isConflict(err) {
			return errors.Join(errOvertaken, err)
		}
		return err
	}
	// A deletion of the manifest may have looked for tags before these were set.
	if _, err := r.reg.store.Stat(ctx, revision); absent(err) {
		return errOvertaken
	}
	return nil
}

// acceptBody checks what can be checked before the body is parsed, and returns
// its digest: of the algorithm that the reference names, otherwise the canonical one.
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
		return "", oci.NewError(oci.CodeDigestInvalid, fmt.Sprintf("the manifest has the digest %s, not %s", got, want))
	}
	return want, nil
}

// allTags returns tag, if there is one, and more, each once.
func allTags(tag oci.Tag, more []oci.Tag) []oci.Tag {
	var all []oci.Tag
	for _, t := range append([]oci.Tag{tag}, more...) {
		if t != "" && !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all
}
