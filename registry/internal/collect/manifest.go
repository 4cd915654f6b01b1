package collect

import (
	"context"
	"errors"
	"slices"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// maxManifest is more than any registry takes.
const maxManifest = 64 << 20

// references reads a manifest, and proves it.
func (r *run) references(ctx context.Context, d oci.Digest) (references, error) {
	body, _, err := storage.Read(ctx, r.Store, layout.BlobData(d), maxManifest)
	if absent(err) {
		return references{}, errors.New("its bytes are missing")
	}
	if err != nil {
		return references{}, err
	}
	if d.Algorithm().FromBytes(body) != d {
		return references{}, errors.New("its bytes are damaged")
	}
	read, err := oci.ReadReferences(body)
	if err != nil {
		return references{}, err
	}
	refs := references{hasSubject: read.Subject != "", needs: make([]id, 0, len(read.Needed)+len(read.Elsewhere))}
	for _, ref := range slices.Concat(read.Needed, read.Elsewhere) {
		refs.needs = append(refs.needs, r.digests.add(ref))
	}
	if refs.hasSubject {
		refs.subject = r.digests.add(read.Subject)
	}
	return refs, nil
}
