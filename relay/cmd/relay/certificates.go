package main

import (
	"context"

	"golang.org/x/crypto/acme/autocert"

	"slipway/relay/internal/store"
)

// certificates is an autocert.Cache in the database, which all relays share. It holds the ACME account and the certificates with their
// keys.
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

// Put implements autocert.Cache. The values are PEM, so the column is text.
func (c certificates) Put(ctx context.Context, name string, data []byte) error {
	return c.store.Update(ctx, func(tx *store.Tx) error { return tx.SetSetting(certificateKey+name, string(data)) })
}

// Delete implements autocert.Cache.
func (c certificates) Delete(ctx context.Context, name string) error { return c.Put(ctx, name, nil) }
