//go:build !goolm

package matrix

import (
	"context"

	"slipway/relay/internal/encryption"
	"slipway/relay/internal/store"
)

// builtWithEncryption reports whether the build can encrypt.
const builtWithEncryption = false

func recoveryKey(context.Context, *store.Keys, string, []byte) (string, error) {
	return "", errNotBuilt
}

// openDevice refuses: without the tag the library would want one in C.
func openDevice(context.Context, encryption.Options) (device, error) { return nil, errNotBuilt }
