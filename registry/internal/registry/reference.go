package registry

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// checkReferences is nil if the repository has all that a pushed manifest
// refers to. Its subject need not be there (distribution-spec "Pushing Manifests
// with Subject").
func (r Repository) checkReferences(ctx context.Context, m *oci.Manifest) error {
	var problems oci.Errors
	seen := make(map[oci.Digest]bool, 1+len(m.Layers)+len(m.Manifests))
	check := func(d *oci.Descriptor, one func(context.Context, *oci.Descriptor) error) error {
		if seen[d.Digest] {
			return nil
		}
		seen[d.Digest] = true
		err := one(ctx, d)
		var problem *oci.Error
		if errors.As(err, &problem) && problem.Code != oci.CodeUnknown {
			problems = append(problems, problem)
			return nil
		}
		return err
	}
	if m.Config != nil {
		if err := check(m.Config, r.checkBlob); err != nil {
			return err
		}
	}
	for i := range m.Layers {
		if err := check(&m.Layers[i], r.checkLayer); err != nil {
			return err
		}
	}
	for i := range m.Manifests {
		if err := check(&m.Manifests[i], r.checkChild); err != nil {
			return err
		}
	}
	if problems != nil {
		return problems
	}
	return nil
}

// checkBlob looks for a blob of the size that the manifest says.
func (r Repository) checkBlob(ctx context.Context, d *oci.Descriptor) error {
	got, target, err := r.healthyBlob(ctx, d.Digest, toKeep)
	if isCode(err, oci.CodeBlobUnknown) {
		return referenceUnknown(d.Digest)
	}
	if err != nil || d.Size == 0 || d.Size == got.Size {
		return err
	}
	return r.disputed(ctx, d, target)
}

// disputed settles whose fault it is that a stored blob has another size than
// the manifest says: the blob is damaged and has to be pushed again, or the
// manifest is wrong and nobody could pull it.
func (r Repository) disputed(ctx context.Context, d *oci.Descriptor, target oci.Digest) error {
	info, err := r.reg.find(ctx, layout.BlobData(target), toKeep)
	if err == nil {
		err = r.reg.prove(ctx, target, info)
	}
	if absent(err) || errors.Is(err, ErrDamaged) {
		return referenceUnknown(d.Digest)
	}
	if err != nil {
		return fault(err)
	}
	return wrongSize(d, info.Size)
}

// checkLayer is checkBlob for layers, some of which lie elsewhere by design.
func (r Repository) checkLayer(ctx context.Context, d *oci.Descriptor) error {
	if oci.IsManifest(d.MediaType) {
		return r.checkManifest(ctx, d)
	}
	elsewhere := oci.NonDistributable(d.MediaType) && len(d.URLs) > 0
	if err := r.checkURLs(d); err != nil {
		return err
	}
	if elsewhere {
		return nil
	}
	return r.checkBlob(ctx, d)
}

func (r Repository) checkURLs(d *oci.Descriptor) error {
	if r.reg.validation.Disabled {
		return nil
	}
	for _, u := range d.URLs {
		if !r.reg.validation.allows(u) {
			return oci.NewError(oci.CodeManifestInvalid, fmt.Sprintf("layer %s has a URL that is not allowed here", d.Digest))
		}
	}
	return nil
}

// allows says whether a layer may lie at the URL.
func (v *Validation) allows(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "" {
		return false
	}
	for _, deny := range v.DenyURLs {
		if deny.MatchString(s) {
			return false
		}
	}
	for _, allow := range v.AllowURLs {
		if allow.MatchString(s) {
			return true
		}
	}
	return len(v.AllowURLs) == 0
}

// checkChild looks for a manifest that an index lists, if the configuration
// asks for it.
func (r Repository) checkChild(ctx context.Context, d *oci.Descriptor) error {
	v := &r.reg.validation
	if v.Disabled || v.Platforms == PlatformsNone {
		return nil
	}
	if v.Platforms == PlatformsListed && (d.Platform == nil || !slices.Contains(v.PlatformList, *d.Platform)) {
		return nil
	}
	return r.checkManifest(ctx, d)
}

// checkManifest looks for a manifest of the size that the index says.
func (r Repository) checkManifest(ctx context.Context, d *oci.Descriptor) error {
	there, err := r.bringBackManifest(ctx, d.Digest, map[oci.Digest]bool{})
	if err == nil && !there {
		err = driver.ErrNotExist
	}
	if absent(err) && !oci.IsManifest(d.MediaType) {
		return r.checkBlob(ctx, d)
	}
	if err == nil {
		var size int64
		size, err = r.revisionSize(ctx, d.Digest)
		if err == nil && d.Size != 0 && d.Size != size {
			return wrongSize(d, size)
		}
	}
	if absent(err) || errors.Is(err, ErrDamaged) {
		return referenceUnknown(d.Digest)
	}
	return fault(err)
}

// revisionSize is the size of a stored manifest that is not damaged.
func (r Repository) revisionSize(ctx context.Context, d oci.Digest) (int64, error) {
	m, ok := r.reg.manifests.get(d)
	if !ok {
		var err error
		if m, err = r.reg.readManifest(ctx, d); err != nil {
			return 0, err
		}
		r.reg.remember(m)
		return m.Size, nil
	}
	return m.Size, r.reg.lookAt(ctx, m)
}

func referenceUnknown(d oci.Digest) error {
	return oci.NewError(oci.CodeManifestBlobUnknown, string(d))
}

func wrongSize(d *oci.Descriptor, stored int64) error {
	return oci.NewError(oci.CodeManifestInvalid,
		fmt.Sprintf("the manifest says that %s has %d bytes, but it has %d", d.Digest, d.Size, stored))
}
