package main

import (
	"context"

	"golang.org/x/crypto/acme/autocert"

	"slipway/relay/internal/store"
)

// certificates keeps an ACME account and its certificates, with their keys, in the database, where all relays find them. It is an
// autocert.Cache.
type certificates struct{ store *store.Store }

const certificateKey = "acme:"

// Get implements autocert.Cache.
func (c certificates) Get(ctx context.Context, name string) ([]byte, error) {
	text, err := c.store.Setting(ctx, certificateKey+name)
	if err == nil && text == "" {
		err = autocert.ErrCacheMiss
	}
	return []byte(text), err
}

// Put implements autocert.Cache. All that is kept is PEM, and so is text.
func (c certificates) Put(ctx context.Context, name string, data []byte) error {
	return c.store.Update(ctx, func(tx *store.Tx) error { return tx.SetSetting(certificateKey+name, string(data)) })
}

// Delete implements autocert.Cache.
func (c certificates) Delete(ctx context.Context, name string) error { return c.Put(ctx, name, nil) }
