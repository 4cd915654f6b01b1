package app

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/config"
	"slipway/registry/internal/storage/gcs"
	"slipway/shared/fileerror"
)

// firstLook bounds the requests by which the clouds' drivers begin.
const firstLook = 20 * time.Second

// emulatorVariable names a server that stands in for Google's, as for Google's own
// programs.
const emulatorVariable = "STORAGE_EMULATOR_HOST"

// openGCS opens a bucket after it has probed it once.
func openGCS(ctx context.Context, g *config.GCS, log *zap.Logger, userAgent string) (*gcs.Bucket, error) {
	ctx, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	o := gcs.Options{Bucket: g.Bucket, UserAgent: cmp.Or(g.UserAgent, userAgent)}
	if host := os.Getenv(emulatorVariable); host != "" {
		if !strings.Contains(host, "://") {
			host = "http://" + host
		}
		o.Endpoint = host
		log.Warn(emulatorVariable+" is set: requests are not authorized and go to an emulator", zap.String("address", host))
	} else {
		content := g.CredentialsJSON()
		if g.KeyFile != "" {
			var err error
			if content, err = os.ReadFile(g.KeyFile); err != nil {
				return nil, fmt.Errorf("storage.gcs.keyfile: %w", fileerror.Explain(g.KeyFile, err))
			}
		}
		var err error
		if o.Tokens, o.Signer, err = gcs.Credentials(ctx, content); err != nil {
			return nil, fmt.Errorf("storage.gcs.keyfile, credentials: %w", err)
		}
	}
	bucket, err := gcs.New(o)
	if err != nil {
		return nil, fmt.Errorf("storage.gcs: %w", err)
	}
	if err := bucket.Start(ctx, log); err != nil {
		return nil, fmt.Errorf("storage.gcs.%w", err)
	}
	return bucket, nil
}
