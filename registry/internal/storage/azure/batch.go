package azure

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
)

// MaxDelete implements object.BatchDeleter. Azure takes 256; half of them are done well within the time of a request.
func (b *Bucket) MaxDelete() int { return 128 }

// DeleteMany implements object.BatchDeleter.
func (b *Bucket) DeleteMany(ctx context.Context, keys []string) error {
	return b.batches.DeleteMany(ctx, keys)
}

// deletion is a part of a batch. It has a grant of its own, and so expires like a deletion alone.
func (b *Bucket) deletion(ctx context.Context, key string) (*http.Request, error) {
	req, _, err := b.build(ctx, request{method: http.MethodDelete, url: b.blobURL(key), expire: "d", inBatch: true})
	return req, err
}

func (b *Bucket) sendBatch(ctx context.Context, body []byte, mediaType string) (*http.Response, error) {
	resp, err := b.send(ctx, request{
		method: http.MethodPost, url: b.base, query: url.Values{"restype": {"container"}, "comp": {"batch"}},
		header: http.Header{"Content-Type": {mediaType}}, body: object.Body{Content: bytes.NewReader(body), Size: int64(len(body))},
	})
	if f := (*Failure)(nil); errors.As(err, &f) && !errors.Is(err, storage.ErrUnavailable) {
		return nil, errors.ErrUnsupported
	}
	return resp, err
}
