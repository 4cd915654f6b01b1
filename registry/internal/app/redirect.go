package app

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/app/cloudfront"
	"slipway/registry/internal/config"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage"
	"slipway/shared/fileerror"
)

// blobURLs returns the source of URLs for blobs; nil if clients get blobs from the registry. What it
// needs to be watched meanwhile is added to watch.
func blobURLs(cfg *config.Config, signer storage.URLSigner, log *zap.Logger, watch *[]func(context.Context)) (registry.BlobURLs, error) {
	if cfg.Storage.Redirect.Disable {
		return nil, nil //nolint:nilnil // there need not be any
	}
	var urls registry.BlobURLs
	if signer != nil && signer.Redirects() {
		urls = ofStore{signer}
	}
	for i := range cfg.Middleware.Storage {
		m := &cfg.Middleware.Storage[i]
		o := &m.Options
		switch {
		case m.Disabled:
		case m.Name == "redirect":
			urls = below{o.Base()} // checked with the configuration
		case m.Name == "rewrite" && urls != nil:
			urls = rewritten{urls, o}
		case m.Name == "cloudfront":
			signer, err := cloudFrontSigner(o)
			if err != nil {
				return nil, fmt.Errorf("middleware.storage[%d].options.privatekey: %w", i, err)
			}
			front := &fronted{signer: signer, root: cfg.Storage.S3.RootDirectory, duration: o.Duration}
			if o.IPFilteredBy != "none" {
				var regions []string
				if o.IPFilteredBy == "awsregion" {
					regions = o.Regions()
				}
				front.bucket, front.near = urls, cloudfront.NewRanges(o.IPRangesURL, regions, log)
				*watch = append(*watch, func(ctx context.Context) { front.near.Watch(ctx, o.UpdateFrequency) })
			}
			urls = front
		}
	}
	return urls, nil
}

func cloudFrontSigner(o *config.MiddlewareOptions) (*cloudfront.Signer, error) {
	key, err := os.ReadFile(o.PrivateKey)
	if err != nil {
		return nil, fileerror.Explain(o.PrivateKey, err)
	}
	signer, err := cloudfront.NewSigner(o.Distribution(), o.KeyPairID, key)
	if err != nil {
		return nil, fmt.Errorf("%s %w", o.PrivateKey, err)
	}
	return signer, nil
}

// ofStore gives the store's own URLs.
type ofStore struct{ storage.URLSigner }

// SignedURL implements registry.BlobURLs.
func (s ofStore) SignedURL(ctx context.Context, key, contentType string, _ netip.Addr) (string, error) {
	return s.URLSigner.SignedURL(ctx, key, contentType)
}

// below redirects to where another server has the tree.
type below struct{ base *url.URL }

// SignedURL implements registry.BlobURLs. Nothing is signed.
func (b below) SignedURL(_ context.Context, key, _ string, _ netip.Addr) (string, error) {
	return b.base.JoinPath(key).String(), nil
}

// rewritten changes other URLs.
type rewritten struct {
	registry.BlobURLs
	o *config.MiddlewareOptions
}

// SignedURL implements registry.BlobURLs.
func (r rewritten) SignedURL(ctx context.Context, key, contentType string, client netip.Addr) (string, error) {
	signed, err := r.BlobURLs.SignedURL(ctx, key, contentType, client)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(signed)
	if err != nil {
		return "", err
	}
	if r.o.Scheme != "" {
		u.Scheme = r.o.Scheme
	}
	if r.o.Host != "" {
		u.Host = r.o.Host
	}
	u.Path, u.RawPath = strings.TrimPrefix(u.Path, r.o.TrimPathPrefix), ""
	return u.String(), nil
}

// fronted sends clients to CloudFront, except those that are near the bucket.
type fronted struct {
	signer   *cloudfront.Signer
	root     string // of the bucket
	duration time.Duration
	near     *cloudfront.Ranges // nil = nobody is
	bucket   registry.BlobURLs  // for those; nil if the store gives no URLs
}

// SignedURL implements registry.BlobURLs.
func (f *fronted) SignedURL(ctx context.Context, key, contentType string, client netip.Addr) (string, error) {
	if f.near == nil || !f.near.Contains(client) {
		return f.signer.URL(path.Join("/", f.root, key), time.Now().Add(f.duration))
	}
	if f.bucket == nil {
		return "", errors.New("the store gives no URLs")
	}
	return f.bucket.SignedURL(ctx, key, contentType, client)
}
