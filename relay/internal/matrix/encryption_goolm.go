//go:build goolm

package matrix

import (
	"context"

	"slipway/relay/internal/encryption"
)

func openDevice(ctx context.Context, o encryption.Options) (device, error) {
	d, err := encryption.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return d, nil
}
