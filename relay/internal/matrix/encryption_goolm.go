//go:build goolm

package matrix

import (
	"context"

	"slipway/relay/internal/encryption"
)

// builtWithEncryption says whether the relay can encrypt at all.
const builtWithEncryption = true

func openDevice(ctx context.Context, o encryption.Options) (device, error) {
	d, err := encryption.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return d, nil
}
