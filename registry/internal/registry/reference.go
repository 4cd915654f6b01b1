package registry

import (
	"context"
	"errors"
	"fmt"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// checkReferences returns nil if the repository has all that a pushed manifest
// refers to. Its subject need not exist (distribution-spec "Pushing Manifests
// with Subject").
//
// A wrong size is no new claim of a manifest that the repository holds, so it is accepted if
// stored reports that.
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
		if problem != nil && (!errors.Is(problem, errWrongSize) || !stored()) {
			problems = append(problems, problem)
		}
	}
	if problems != nil {
		return problems
	}
	return nil
}

// checkBlob looks for a blob of the size that the manifest gives. Otherwise either the blob is damaged or
// the manifest is wrong, and no client could pull it. The client pushes the blob again, because StatBlob
// doubts it from then on.
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
	r.reg.doubted.Put(layout.LayerLink(r.name, d.Digest), got.Size, 1)
	return wrongSize(oci.CodeManifestBlobUnknown, d, got.Size)
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

// checkManifest looks for a manifest of the size that the index says. What the
// manifest itself needs is kept as long as its link.
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
		return fault(err)
	case d.Size != 0 && d.Size != m.Size:
		return wrongSize(oci.CodeManifestInvalid, d, m.Size)
	}
	return nil
}

func referenceUnknown(d oci.Digest) error {
	return oci.NewError(oci.CodeManifestBlobUnknown, string(d))
}

var errWrongSize = errors.New("a descriptor has a wrong size")

func wrongSize(code oci.Code, d *oci.Descriptor, stored int64) error {
	return &oci.Error{
		Code: code, Err: errWrongSize,
		Detail: fmt.Sprintf("the manifest says that %s has %d bytes, but it has %d", d.Digest, d.Size, stored),
	}
}
