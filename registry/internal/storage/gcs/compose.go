package gcs

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
)

// composed is the number of objects that Google joins with one request.
const composed = 32

// Compose implements object.Bucket. More than 32 sources are joined in steps.
func (b *Bucket) Compose(ctx context.Context, key string, sources []object.Source, o object.PutOptions) (string, error) {
	beside := path.Dir(key) + "/.compose-" + strings.ToLower(rand.Text())
	var between []object.Source
	defer func() {
		for _, s := range between {
			_ = b.Delete(object.WithSent(context.WithoutCancel(ctx), time.Now()), s.Key, storage.Condition{})
		}
	}()
	for len(sources) > composed {
		before := len(between)
		for some := range slices.Chunk(sources, composed) {
			s := object.Source{Key: fmt.Sprint(beside, "-", len(between))}
			between = append(between, s)
			if _, err := b.join(ctx, s.Key, some, object.PutOptions{}); err != nil {
				return "", err
			}
		}
		sources = slices.Clone(between[before:])
	}
	return b.join(ctx, key, sources, o)
}

func (b *Bucket) join(ctx context.Context, key string, sources []object.Source, o object.PutOptions) (string, error) {
	type source struct {
		Name string `json:"name"`
	}
	var request struct {
		Sources     []source `json:"sourceObjects"`
		Destination resource `json:"destination"`
	}
	request.Destination = describe("", o)
	for _, s := range sources {
		request.Sources = append(request.Sources, source{s.Key})
	}
	content, err := json.Marshal(request)
	if err != nil {
		return "", err
	}
	query := match(o.If)
	query.Set("fields", fields)
	resp, err := b.send(ctx, http.MethodPost, b.object(key, query, "compose"), http.Header{"Content-Type": {"application/json"}}, bytes.NewReader(content), int64(len(content)), false)
	if err != nil {
		return "", err
	}
	return b.written(ctx, resp)
}
