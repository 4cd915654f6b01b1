//go:build goolm

package matrix

import (
	"context"

	"slipway/relay/internal/encryption"
	"slipway/relay/internal/store"
)

// builtWithEncryption reports whether the build can encrypt.
const builtWithEncryption = true

func recoveryKey(ctx context.Context, db *store.Keys, device string, pickleKey []byte) (string, error) {
	return encryption.RecoveryKey(ctx, db, device, pickleKey)
}

func openDevice(ctx context.Context, o encryption.Options) (device, error) {
	d, err := encryption.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return d, nil
}
