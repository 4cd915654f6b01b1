package replication

import (
	"context"
	"io"

	"slipway/registry/internal/imagecopy"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

// source is a repository of this registry, as an [imagecopy.Source]. Reading it doesn't count as a pull. Its errors are
// of type *sourceError.
type source struct{ repo registry.Repository }

// Manifest implements [imagecopy.Source].
func (s source) Manifest(ctx context.Context, d oci.Digest) ([]byte, error) {
	m, err := s.peek(ctx, oci.Reference{Digest: d})
	if err != nil {
		return nil, err
	}
	return m.Bytes, nil
}

// Blob implements [imagecopy.Source].
func (s source) Blob(ctx context.Context, d oci.Digest) (io.ReadCloser, int64, error) {
	content, size, err := imagecopy.Pulled{Puller: s.repo}.Blob(ctx, d)
	return content, size, fromSource(err)
}

// Referrers implements [imagecopy.Source].
func (s source) Referrers(ctx context.Context, subject oci.Digest) ([]oci.Descriptor, error) {
	all, err := imagecopy.Pulled{Puller: s.repo}.Referrers(ctx, subject)
	return all, fromSource(err)
}

func (s source) peek(ctx context.Context, ref oci.Reference) (*registry.Manifest, error) {
	m, err := s.repo.Peek(ctx, ref)
	return m, fromSource(err)
}

func (s source) tags(ctx context.Context) ([]string, error) {
	tags, _, err := s.repo.Tags(ctx, -1, "")
	return tags, fromSource(err)
}

func (s source) parents(ctx context.Context, d oci.Digest) ([]oci.Digest, error) {
	all, err := s.repo.Parents(ctx, d)
	return all, fromSource(err)
}

// sourceError is a failure of this registry's storage. Like one of the target it may be a timeout or an error of HTTP.
type sourceError struct{ err error }

func fromSource(err error) error {
	if err == nil {
		return nil
	}
	return &sourceError{err}
}

func (e *sourceError) Error() string { return "reading it here: " + e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }
