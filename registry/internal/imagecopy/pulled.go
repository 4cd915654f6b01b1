package imagecopy

import (
	"context"
	"io"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

// Pulled is a repository as a [Source].
type Pulled struct{ registry.Puller }

// Manifest implements [Source].
func (p Pulled) Manifest(ctx context.Context, d oci.Digest) ([]byte, error) {
	m, err := p.Puller.Manifest(ctx, oci.Reference{Digest: d})
	if err != nil {
		return nil, err
	}
	return m.Bytes, nil
}

// Blob implements [Source].
func (p Pulled) Blob(ctx context.Context, d oci.Digest) (io.ReadCloser, int64, error) {
	b, err := p.OpenBlob(ctx, d)
	if err != nil {
		return nil, 0, err
	}
	return b, b.Size(), nil
}

// Referrers implements [Source].
func (p Pulled) Referrers(ctx context.Context, subject oci.Digest) (all []oci.Descriptor, err error) {
	for after := ""; ; {
		list, page, err := p.Puller.Referrers(ctx, subject, "", after, 0)
		all = append(all, list...)
		if err != nil || page.Next == "" {
			return all, err
		}
		after = page.Next
	}
}
