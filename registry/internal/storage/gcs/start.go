package gcs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
)

// Start proves that the bucket can be listed, and learns whether requests can expire.
// An error is a sentence that names the setting which may be wrong, relative to
// storage.gcs.
func (b *Bucket) Start(ctx context.Context, log *zap.Logger) error {
	if _, err := b.List(ctx, "", object.ListOptions{Max: 1}); err != nil {
		return b.explain(err)
	}
	if b.o.Signer != nil {
		if _, err := b.SignedURL(ctx, http.MethodGet, "slipway", time.Minute, object.URLOptions{}); err != nil {
			log.Warn("the service account may not sign (role Service Account Token Creator on itself): garbage collection waits longer", zap.Error(err))
			b.o.Signer = nil
		}
	}
	return nil
}

// Redirects implements object.Bucket.
func (b *Bucket) Redirects() bool { return b.o.Signer != nil }

// explain makes of a failure to begin a sentence for the operator.
func (b *Bucket) explain(err error) error {
	var f *Failure
	switch {
	case errors.Is(err, errNoToken):
		return fmt.Errorf("keyfile, credentials: Google gives no token for them: %w", err)
	case errors.As(err, &f) && f.Message == noBucket || errors.Is(err, storage.ErrNotExist):
		return fmt.Errorf("bucket: %s does not exist; make it with: gcloud storage buckets create gs://%[1]s", b.o.Bucket)
	case errors.Is(err, storage.ErrDenied):
		return fmt.Errorf("keyfile, credentials: refused for bucket %s (role Storage Object Admin is needed): %w", b.o.Bucket, err)
	case errors.Is(err, storage.ErrUnavailable):
		return fmt.Errorf("bucket: cannot reach %s: %w", b.base.Host, err)
	}
	return fmt.Errorf("bucket: %s answers in no way that Google does: %w", b.base.Host, err)
}
