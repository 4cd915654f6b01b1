package main

import (
	"context"
	"testing"

	"slipway/registry/internal/config"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

// bucketURLs is a store that signs, if it may.
type bucketURLs struct {
	storage.Store
	may bool
}

func (s bucketURLs) Redirects() bool { return s.may }

func (bucketURLs) SignedURL(_ context.Context, key, _ string) (string, error) {
	return "http://minio:9000/images" + key + "?signature=x%2Fy", nil
}

func TestURLSigner(t *testing.T) {
	files := storage.Store(memory.New())
	bucket := bucketURLs{files, true}
	cdn := config.StorageMiddleware{Name: "redirect", Options: config.MiddlewareOptions{BaseURL: "https://cdn.example.com/registry/"}}
	rewrite := config.StorageMiddleware{Name: "rewrite", Options: config.MiddlewareOptions{Scheme: "https", Host: "images.example.com", TrimPathPrefix: "/images"}}
	disabled := cdn
	disabled.Disabled = true
	for name, c := range map[string]struct {
		store      storage.Store
		disable    bool
		middleware []config.StorageMiddleware
		want       string // "" = served from here
	}{
		"bucket":               {bucket, false, nil, "http://minio:9000/images/a/b?signature=x%2Fy"},
		"bucket, off":          {bucket, true, []config.StorageMiddleware{cdn}, ""},
		"bucket without a key": {bucketURLs{files, false}, false, nil, ""},
		"files":                {files, false, []config.StorageMiddleware{rewrite, disabled}, ""},
		"files below a CDN":    {files, false, []config.StorageMiddleware{cdn}, "https://cdn.example.com/registry/a/b"},
		"rewritten":            {bucket, false, []config.StorageMiddleware{rewrite}, "https://images.example.com/a/b?signature=x%2Fy"},
		"in their order":       {bucket, false, []config.StorageMiddleware{rewrite, cdn}, "https://cdn.example.com/registry/a/b"},
	} {
		cfg := &config.Config{}
		cfg.Storage.Redirect.Disable, cfg.Middleware.Storage = c.disable, c.middleware
		signer, got := urlSigner(cfg, c.store), ""
		if signer != nil {
			var err error
			if got, err = signer.SignedURL(t.Context(), "/a/b", "x/y"); err != nil {
				t.Error(err)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
