package registry

import (
	"context"

	"slipway/registry/internal/oci"
)

// Upstream is asked for what a repository does not have. It pushes what it finds
// into the repository and returns true: then the request looks again.
type Upstream func(ctx context.Context, r Repository, m Miss) (found bool, err error)

// Miss is what a repository does not have: a blob, or a manifest by tag or
// digest.
type Miss struct {
	Blob     oci.Digest
	Manifest oci.Reference
}

// orUpstream looks a second time if the upstream has found what is missing.
func (r Repository) orUpstream(ctx context.Context, m Miss, look func() error) error {
	err := look()
	if r.reg.upstream == nil || !isCode(err, oci.CodeBlobUnknown) && !isCode(err, oci.CodeManifestUnknown) && !isCode(err, oci.CodeNameUnknown) {
		return err
	}
	found, failed := r.reg.upstream(ctx, r, m)
	switch {
	case failed != nil:
		return fault(failed)
	case !found:
		return err
	default:
		return look()
	}
}
