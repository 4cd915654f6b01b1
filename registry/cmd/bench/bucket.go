package main

import (
	"bytes"
	"context"

	"slipway/registry/internal/bench"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/s3"
)

// bucket is a bench.Bucket.
type bucket struct{ *s3.Bucket }

func openBucket(ctx context.Context, endpoint, name, key string) (bench.Bucket, error) {
	config := s3.Config{AccessKey: key, SecretKey: key, Region: "us-east-1", Endpoint: endpoint, Bucket: name, PathStyle: true}
	if err := s3.Create(ctx, config); err != nil {
		return nil, err
	}
	b, err := s3.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	return bucket{b}, nil
}

// Put implements bench.Bucket.
func (b bucket) Put(ctx context.Context, key string, content []byte) error {
	_, err := b.Bucket.Put(ctx, key, object.Body{Content: bytes.NewReader(content), Size: int64(len(content))}, object.PutOptions{})
	return err
}

// Count implements bench.Bucket.
func (b bucket) Count(ctx context.Context, prefix string) (n int, err error) {
	for o := (object.ListOptions{}); ; {
		page, err := b.List(ctx, prefix, o)
		if err != nil {
			return 0, err
		}
		n += len(page.Entries)
		if !page.More {
			return n, nil
		}
		o.After = page.Next
		if o.After == "" {
			o.After = page.Entries[len(page.Entries)-1].Key
		}
	}
}
