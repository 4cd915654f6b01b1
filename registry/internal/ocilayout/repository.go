package ocilayout

import (
	"context"
	"errors"
	"io"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

// pushed is a repository as a target.
type pushed struct{ registry.Repository }

// HasBlob implements [imagecopy.Target].
func (p pushed) HasBlob(ctx context.Context, d oci.Digest) (bool, error) {
	_, err := p.StatBlob(ctx, d)
	if oci.HasCode(err, oci.CodeBlobUnknown) {
		return false, nil
	}
	return err == nil, err
}

// PutBlob implements [imagecopy.Target].
func (p pushed) PutBlob(ctx context.Context, d oci.Digest, _ int64, content io.Reader) (n int64, err error) {
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

// PutManifest implements [imagecopy.Target].
func (p pushed) PutManifest(ctx context.Context, d oci.Digest, m *oci.Manifest, body []byte, tags []oci.Tag) error {
	_, err := p.Repository.PutManifest(ctx, oci.Reference{Digest: d}, m.MediaType, body, tags)
	return err
}
