package app

import (
	"context"
	"errors"
	"strings"

	"golang.org/x/crypto/acme/autocert"

	"slipway/registry/internal/config"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/storage"
	"slipway/shared/server"
)

// maxCertificate is the largest account or certificate chain with its key that is read, in bytes.
const maxCertificate = 1 << 20

// certificateStore is an autocert.Cache in the storage, which all replicas share. It holds the ACME account and the certificates with
// their keys.
type certificateStore struct{ store storage.Store }

// key returns the storage key for a name of the cache: a host, perhaps with "+" and a kind, and keys don't allow "+".
func (c certificateStore) key(name string) string {
	return layout.Certificates + "/" + strings.ReplaceAll(name, "+", "_")
}

// Get implements autocert.Cache.
func (c certificateStore) Get(ctx context.Context, name string) ([]byte, error) {
	content, _, err := storage.Read(ctx, c.store, c.key(name), maxCertificate)
	if errors.Is(err, storage.ErrNotExist) {
		return nil, autocert.ErrCacheMiss
	}
	return content, err
}

// Put implements autocert.Cache.
func (c certificateStore) Put(ctx context.Context, name string, data []byte) error {
	return c.store.Apply(ctx, nil, storage.Stage{{Key: c.key(name), Content: data}})
}

// Delete implements autocert.Cache.
func (c certificateStore) Delete(ctx context.Context, name string) error {
	err := c.store.Apply(ctx, nil, storage.Stage{{Key: c.key(name), Delete: true}})
	if errors.Is(err, storage.ErrNotExist) {
		return nil
	}
	return err
}

// acmeOptions returns the configuration of the ACME authority; nil without one.
func acmeOptions(l config.LetsEncrypt, store storage.Store) *server.ACME {
	if !l.Enabled() {
		return nil
	}
	o := &server.ACME{Hosts: l.Hosts, Email: l.Email, Directory: l.DirectoryURL, Cache: certificateStore{store}}
	if l.CacheFile != "" {
		o.Cache = autocert.DirCache(l.CacheFile)
	}
	return o
}
