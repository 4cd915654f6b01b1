package registry

import (
	"context"
	"net/netip"

	"slipway/registry/internal/oci"
)

// Puller reads a repository as clients do. Repository implements it from the storage alone;
// package proxy adds what an upstream has.
type Puller interface {
	Name() oci.Name
	Manifest(ctx context.Context, ref oci.Reference) (*Manifest, error)
	StatManifest(ctx context.Context, ref oci.Reference) (*Manifest, error)
	StatBlob(ctx context.Context, d oci.Digest) (oci.Descriptor, error)
	OpenBlob(ctx context.Context, d oci.Digest) (*Blob, error)
	BlobURL(ctx context.Context, d oci.Digest, client netip.Addr) (url string, desc oci.Descriptor, err error)
	Tags(ctx context.Context, n int, last string) ([]string, Page, error)
	Referrers(ctx context.Context, subject oci.Digest, artifactType, after string, limit int) ([]oci.Descriptor, Page, error)
}

var _ Puller = Repository{}
