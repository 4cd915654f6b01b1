package azure

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/rest"
)

// MaxDelete implements object.BatchDeleter. Azure takes 256; half of them are done well within the time of a request.
func (b *Bucket) MaxDelete() int { return 128 }

// DeleteMany implements object.BatchDeleter. Each part of the request has a grant of its own, and so expires like
// a deletion alone.
func (b *Bucket) DeleteMany(ctx context.Context, keys []string) error {
	if b.noBatch.Load() {
		return errors.ErrUnsupported
	}
	parts := make([]*http.Request, len(keys))
	for i, key := range keys {
		var err error
		if parts[i], _, err = b.build(ctx, request{method: http.MethodDelete, url: b.blobURL(key), expire: "d", inBatch: true}); err != nil {
			return err
		}
	}
	body, mediaType := rest.Batch(parts)
	resp, err := b.send(ctx, request{
		method: http.MethodPost, url: b.base, query: url.Values{"restype": {"container"}, "comp": {"batch"}},
		header: http.Header{"Content-Type": {mediaType}}, body: object.Body{Content: bytes.NewReader(body), Size: int64(len(body))},
	})
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
