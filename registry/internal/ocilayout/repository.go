package ocilayout

import (
	"context"
	"errors"
	"io"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

// pulled is a repository as a source.
type pulled struct{ registry.Puller }

func (p pulled) manifest(ctx context.Context, d oci.Digest) ([]byte, error) {
	m, err := p.Manifest(ctx, oci.Reference{Digest: d})
	if err != nil {
		return nil, err
	}
	return m.Bytes, nil
}

func (p pulled) blob(ctx context.Context, d oci.Digest) (io.ReadCloser, int64, error) {
	b, err := p.OpenBlob(ctx, d)
	if err != nil {
		return nil, 0, err
	}
	return b, b.Size(), nil
}

func (p pulled) referrers(ctx context.Context, subject oci.Digest) (all []oci.Descriptor, err error) {
	for after := ""; ; {
		list, page, err := p.Referrers(ctx, subject, "", after, 0)
		all = append(all, list...)
		if err != nil || page.Next == "" {
			return all, err
		}
		after = page.Next
	}
}

// pushed is a repository as a target.
type pushed struct{ registry.Repository }

func (p pushed) hasBlob(ctx context.Context, d oci.Digest) (bool, error) {
	_, err := p.StatBlob(ctx, d)
	if oci.HasCode(err, oci.CodeBlobUnknown) {
		return false, nil
	}
	return err == nil, err
}

func (p pushed) putBlob(ctx context.Context, d oci.Digest, _ int64, content io.Reader) (n int64, err error) {
	u, err := p.StartUpload(ctx, d.Algorithm())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, u.Close()) }()
	n, err = u.Append(ctx, content, -1)
	if err == nil {
		_, err = u.Commit(ctx, d)
	}
	if err != nil {
		err = errors.Join(err, u.Cancel(context.WithoutCancel(ctx)))
	}
	return n, err
}

func (p pushed) putManifest(ctx context.Context, d oci.Digest, m *oci.Manifest, body []byte, tags []oci.Tag) error {
	_, err := p.PutManifest(ctx, oci.Reference{Digest: d}, m.MediaType, body, tags)
	return err
}
