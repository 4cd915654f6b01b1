package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
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
// Errors: MANIFEST_INVALID, DIGEST_INVALID, DENIED for a class that may not be pushed (see
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
		return PutResult{}, err
	}
	m := r.reg.newManifest(d, body, parsed)
	r.reg.remember(m)
	return PutResult{Descriptor: m.Descriptor, Subject: m.Subject, Tags: tags}, nil
}

// storeManifest stores the manifest if check finds all that it refers to: the bytes,
// revision and history that distribution also writes, and then the tags. ErrExpired or
// errOvertaken ask for another attempt.
func (r Repository) storeManifest(ctx context.Context, d oci.Digest, body []byte, tags []oci.Tag, check func() error) error {
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
	stages := []storage.Stage{append(content, pushed...), pointers}
	if slices.ContainsFunc(pointers, func(move storage.Change) bool { return move.If != (storage.Condition{}) }) {
		stages = []storage.Stage{content, pointers, pushed} // a push that loses leaves no history
	}
	if err := r.apply(ctx, stages...); err != nil {
		if isConflict(err) {
			return errors.Join(errOvertaken, err)
		}
		return err
	}
	r.reg.opts.Changed(r.name, d, tags)
	if len(pointers) == 0 {
		return nil
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
		return "", oci.Explain(oci.CodeManifestInvalid, fmt.Sprintf("the manifest is larger than %d bytes", r.maxManifestSize))
	}
	if want == "" {
		return oci.SHA256.FromBytes(body), nil
	}
	if got := want.Algorithm().FromBytes(body); got != want {
		return "", oci.Explain(oci.CodeDigestInvalid, fmt.Sprintf("the manifest has the digest %s, not %s: push what has that digest", got, want))
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

// checkReferences returns nil if the repository has all that a pushed manifest
// refers to. Its subject need not exist (distribution-spec "Pushing Manifests
// with Subject").
//
// A wrong size is accepted if stored reports that the repository already holds the manifest: it isn't a new
// claim.
func (r Repository) checkReferences(ctx context.Context, m *oci.Manifest, stored func() bool) error {
	type reference struct {
		*oci.Descriptor
		check func(context.Context, *oci.Descriptor) error
	}
	var references []reference
	seen := make(map[oci.Digest]bool, 1+len(m.Layers)+len(m.Manifests))
	add := func(d *oci.Descriptor, check func(context.Context, *oci.Descriptor) error) {
		if !seen[d.Digest] {
			seen[d.Digest] = true
			references = append(references, reference{d, check})
		}
	}
	if m.Config != nil {
		add(m.Config, r.checkBlob)
	}
	for i := range m.Layers {
		add(&m.Layers[i], r.checkLayer)
	}
	for i := range m.Manifests {
		add(&m.Manifests[i], r.checkChild)
	}
	found := make([]*oci.Error, len(references))
	err := r.reg.store.Each(len(references), func(i int) error {
		err := references[i].check(ctx, references[i].Descriptor)
		if errors.As(err, &found[i]) && found[i].Code != oci.CodeUnknown && found[i].Code != oci.CodeUnavailable {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	var problems oci.Errors
	for _, problem := range found {
		if problem == nil {
			continue
		}
		var wrong *wrongSizeError
		if errors.As(problem, &wrong) {
			if stored() {
				continue
			}
			if wrong.blob {
				r.reg.doubted.Put(layout.LayerLink(r.name, wrong.digest), seenBytes{storage.Info{Size: wrong.stored}, r.reg.now()}, 1)
			}
		}
		problems = append(problems, problem)
	}
	if problems != nil {
		return problems
	}
	return nil
}

// checkBlob looks for a blob of the size that the manifest gives. Otherwise either the blob is damaged or
// the manifest is wrong, and no client could pull it. The client pushes the blob again, because StatBlob
// doubts it for some minutes once the manifest is refused.
func (r Repository) checkBlob(ctx context.Context, d *oci.Descriptor) error {
	got, target, err := r.healthyBlob(ctx, d.Digest)
	if err == nil && d.Size != 0 && d.Size != got.Size {
		r.reg.blobs.Forget(target) // a push may have replaced it a moment ago
		got, _, err = r.healthyBlob(ctx, d.Digest)
	}
	if oci.HasCode(err, oci.CodeBlobUnknown) {
		return referenceUnknown(d.Digest)
	}
	if err != nil || d.Size == 0 || d.Size == got.Size {
		return err
	}
	return (&wrongSizeError{blob: true, digest: d.Digest, said: d.Size, stored: got.Size}).refusal(oci.CodeManifestBlobUnknown)
}

// checkLayer is checkBlob for layers, some of which are stored elsewhere by design.
func (r Repository) checkLayer(ctx context.Context, d *oci.Descriptor) error {
	if oci.IsManifest(d.MediaType) {
		return r.checkManifest(ctx, d)
	}
	if err := r.reg.opts.Validation.CheckURLs(d); err != nil {
		return err
	}
	if oci.NonDistributable(d.MediaType) && len(d.URLs) > 0 {
		return nil
	}
	return r.checkBlob(ctx, d)
}

// checkChild looks for a manifest that an index lists, if the configuration
// asks for it.
func (r Repository) checkChild(ctx context.Context, d *oci.Descriptor) error {
	if !r.reg.opts.Validation.NeedsChild(d) {
		return nil
	}
	return r.checkManifest(ctx, d)
}

// checkManifest looks for a manifest of the size that the index gives. The content
// that the manifest needs is kept as long as its link.
func (r Repository) checkManifest(ctx context.Context, d *oci.Descriptor) error {
	err := r.revision(ctx, d.Digest)
	if absent(err) && !oci.IsManifest(d.MediaType) {
		return r.checkBlob(ctx, d)
	}
	var m *Manifest
	if err == nil {
		m, err = r.reg.content(ctx, d.Digest)
	}
	switch {
	case absent(err) || errors.Is(err, ErrDamaged):
		return referenceUnknown(d.Digest)
	case err != nil:
		return err
	case d.Size != 0 && d.Size != m.Size:
		return (&wrongSizeError{digest: d.Digest, said: d.Size, stored: m.Size}).refusal(oci.CodeManifestInvalid)
	}
	return nil
}

func referenceUnknown(d oci.Digest) error {
	return oci.NewError(oci.CodeManifestBlobUnknown, string(d))
}

// wrongSizeError reports a descriptor with another size than that of its blob or manifest.
type wrongSizeError struct {
	blob         bool
	digest       oci.Digest
	said, stored int64
}

func (e *wrongSizeError) Error() string {
	return fmt.Sprintf("the manifest says that %s has %d bytes, but it has %d", e.digest, e.said, e.stored)
}

func (e *wrongSizeError) refusal(code oci.Code) *oci.Error {
	return &oci.Error{Code: code, Message: e.Error(), Detail: string(e.digest), Err: e}
}

// pushRecords returns the changes that record that the tags are pointed at d, as distribution does and with the date.
func (r Repository) pushRecords(ctx context.Context, d oci.Digest, to []oci.Tag) (storage.Stage, error) {
	var records storage.Stage
	for _, tag := range to {
		records = append(records, storage.Change{Key: layout.TagIndex(r.name, tag, d), Content: layout.Link(d)})
	}
	if r.filler { // the age of a cached tag is when it was last confirmed upstream
		return records, nil
	}
	pushes := make(storage.Stage, len(to))
	at := r.reg.now()
	err := r.reg.store.Each(len(to), func(i int) error {
		before, err := tree.Pushes(ctx, r.reg.store, r.name, to[i])
		if len(before) > 0 && before[0].Digest == d {
			before = before[1:]
		}
		all := append([]layout.Push{{Digest: d, At: at, By: r.by}}, before...)
		pushes[i] = storage.Change{Key: layout.TagPushed(r.name, to[i]), Content: layout.Pushed(all)}
		return err
	})
	return append(records, pushes...), err
}
