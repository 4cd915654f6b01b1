package gcs

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/rest"
)

// MaxDelete implements object.BatchDeleter.
func (b *Bucket) MaxDelete() int { return 100 }

// DeleteMany implements object.BatchDeleter. The parts of a batch cannot be signed, and so do not expire: where deletions
// can, they are sent one by one.
func (b *Bucket) DeleteMany(ctx context.Context, keys []string) error {
	if b.o.Signer != nil || b.noBatch.Load() {
		return errors.ErrUnsupported
	}
	parts := make([]*http.Request, len(keys))
	for i, key := range keys {
		var err error
		if parts[i], err = http.NewRequestWithContext(ctx, http.MethodDelete, b.object(key, nil), http.NoBody); err != nil {
			return err
		}
	}
	body, mediaType := rest.Batch(parts)
	resp, err := b.send(ctx, http.MethodPost, b.address(nil, "batch/storage/v1"), http.Header{"Content-Type": {mediaType}}, bytes.NewReader(body), int64(len(body)), false)
	if f := (*Failure)(nil); errors.As(err, &f) && !errors.Is(err, storage.ErrUnavailable) {
		b.noBatch.Store(true)
		return errors.ErrUnsupported
	}
	if err != nil {
		return err
	}
	left, err := rest.Undeleted(ctx, resp, keys)
	if errors.Is(err, errors.ErrUnsupported) {
		b.noBatch.Store(true)
	}
	if err != nil {
		return err
	}
	for _, key := range left { // which says why
		if err := b.Delete(ctx, key, storage.Condition{}); err != nil {
			return err
		}
	}
	return nil
}
