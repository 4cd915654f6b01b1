package gcs

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"slipway/registry/internal/storage"
)

// MaxDelete implements object.BatchDeleter.
func (b *Bucket) MaxDelete() int { return 100 }

// DeleteMany implements object.BatchDeleter. The parts of a batch cannot be signed, and so do not expire: where deletions
// can, they are sent one by one.
func (b *Bucket) DeleteMany(ctx context.Context, keys []string) error {
	if b.o.Signer != nil {
		return errors.ErrUnsupported
	}
	return b.batches.DeleteMany(ctx, keys)
}

// deletion is a part of a batch.
func (b *Bucket) deletion(ctx context.Context, key string) (*http.Request, error) {
	return http.NewRequestWithContext(ctx, http.MethodDelete, b.object(key, nil), http.NoBody)
}

func (b *Bucket) sendBatch(ctx context.Context, body []byte, mediaType string) (*http.Response, error) {
	header := http.Header{"Content-Type": {mediaType}}
	resp, err := b.send(ctx, http.MethodPost, b.address(nil, "batch/storage/v1"), header, bytes.NewReader(body), int64(len(body)), false)
	if f := (*Failure)(nil); errors.As(err, &f) && !errors.Is(err, storage.ErrUnavailable) {
		return nil, errors.ErrUnsupported
	}
	return resp, err
}
