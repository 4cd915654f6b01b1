package main

import (
	"context"
	"net/url"
	"strings"

	"slipway/registry/internal/config"
	"slipway/registry/internal/storage"
)

// urlSigner is what gives clients URLs for blobs; nil if they get them from here.
func urlSigner(cfg *config.Config, store storage.Store) storage.URLSigner {
	if cfg.Storage.Redirect.Disable {
		return nil
	}
	var signer storage.URLSigner
	if s, ok := store.(storage.URLSigner); ok && s.Redirects() {
		signer = s
	}
	for i := range cfg.Middleware.Storage {
		m := &cfg.Middleware.Storage[i]
		switch {
		case m.Disabled:
		case m.Name == "redirect":
			signer = below{m.Options.Base()} // checked with the configuration
		case m.Name == "rewrite" && signer != nil:
			signer = rewritten{signer, m.Options}
		}
	}
	return signer
}

// below redirects to where another server has the tree.
type below struct{ base *url.URL }

// Redirects implements storage.URLSigner.
func (below) Redirects() bool { return true }

// SignedURL implements storage.URLSigner. Nothing is signed.
func (b below) SignedURL(_ context.Context, key, _ string) (string, error) {
	return b.base.JoinPath(key).String(), nil
}

// rewritten changes the URLs of another signer.
type rewritten struct {
	storage.URLSigner
	o config.MiddlewareOptions
}

// SignedURL implements storage.URLSigner.
func (r rewritten) SignedURL(ctx context.Context, key, contentType string) (string, error) {
	signed, err := r.URLSigner.SignedURL(ctx, key, contentType)
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
