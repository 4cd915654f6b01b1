package collect

import (
	"context"
	"errors"
	"slices"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// maxManifest is more than any registry takes.
const maxManifest = 64 << 20

// manifest makes the graph know what a manifest needs.
func (r *run) manifest(ctx context.Context, i id, d oci.Digest) error {
	if _, known := r.graph.get(i); known {
		return nil
	}
	body, err := r.bytes(ctx, d)
	if err != nil {
		return err
	}
	read, err := oci.ReadReferences(body)
	if err != nil {
		return err
	}
	refs := references{hasSubject: read.Subject != ""}
	for _, ref := range slices.Concat(read.Needed, read.Elsewhere) {
		refs.needs = append(refs.needs, r.digests.add(ref))
	}
	if refs.hasSubject {
		refs.subject = r.digests.add(read.Subject)
	}
	r.graph.put(i, refs)
	return nil
}

// bytes reads a manifest, wherever it is, and proves it.
func (r *run) bytes(ctx context.Context, d oci.Digest) ([]byte, error) {
	place := layout.BlobData(d)
	body, err := r.Driver.ReadFile(ctx, place, maxManifest)
	for _, path := range []string{layout.Aside(place), place} {
		if absent(err) {
			body, err = r.Driver.ReadFile(ctx, path, maxManifest)
		}
	}
	if absent(err) {
		return nil, errors.New("its bytes are missing")
	}
	if err != nil {
		return nil, err
	}
	if d.Algorithm().FromBytes(body) != d {
		return nil, errors.New("its bytes are damaged")
	}
	return body, nil
}

// link reads a link file. Errors are those of the driver and of
// layout.ParseLink.
func (r *run) link(ctx context.Context, path string) (oci.Digest, error) {
	b, err := r.Driver.ReadFile(ctx, path, layout.MaxLink)
	if errors.Is(err, driver.ErrTooLarge) {
		return "", layout.ErrBadLink
	}
	if err != nil {
		return "", err
	}
	return layout.ParseLink(b)
}
