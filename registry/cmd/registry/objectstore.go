package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/config"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/storage/lease"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/s3"
)

// bucketCollectWait is how long what is about to be deleted may be listed on an object
// store while writers end that have not seen the list: as long as a lease lasts.
const bucketCollectWait = 30 * time.Second

// probeTime bounds the probe of a store.
const probeTime = time.Minute

// useBucket has the registry keep everything in a bucket, below root.
func (b *backend) useBucket(ctx context.Context, driver string, bucket object.Bucket, root string, cfg *config.Config, log *zap.Logger) error {
	client := object.NewClient(bucket, strings.Trim(root, "/"), bucket.Limits(), object.Timing{})
	shared := cfg.Slipway.ObjectStore.Shared
	if !cfg.Storage.Maintenance.ReadOnly.Enabled {
		probe, cancel := context.WithTimeout(ctx, probeTime)
		defer cancel()
		found, err := object.Probe(probe, client)
		if err != nil {
			return errors.Join(fmt.Errorf("storage.%s: cannot try what the store can do: %w", driver, err), bucket.Close())
		}
		client.Restrict(found)
		log.Info("object store opened", zap.String("driver", driver), zap.Bool("conditional_put", found.ConditionalPut),
			zap.Bool("conditional_delete", found.ConditionalDelete), zap.Duration("max_late", found.MaxLate), zap.String("why", found.Why))
		if !found.ConditionalPut {
			log.Warn("the store ignores conditional requests, so only one registry may serve this bucket, and garbage is collected by that one or while none runs",
				zap.String("why", found.Why))
			shared = false
		}
	}
	o := object.Options{
		Shared: shared, Spool: cfg.Slipway.ObjectStore.Spool, SpoolMax: int64(cfg.Slipway.ObjectStore.SpoolMax),
		Tree:    layout.Root,
		Mutable: func(key string) bool { return !layout.Immutable(key) }, Upload: layout.IsUpload, SHA256: layout.SHA256,
	}
	limits := client.Limits()
	if limits.ConditionalPut {
		l := lease.New(client, lease.Options{MaxLate: limits.MaxLate})
		b.coordinator, o.Guard, o.Begin = l, l.Guard, l.Begin
		b.ends = append(b.ends, func() error { l.Close(); return nil })
	} else {
		l := lease.NewAlone(client, lease.Options{MaxLate: limits.MaxLate})
		b.coordinator = l
		b.ends = append(b.ends, func() error { l.Close(); return nil })
	}
	b.Store, b.driver, b.replicas, b.remote = object.New(client, o), driver, shared, true
	b.renewAfter, b.collectWait = cfg.Storage.Maintenance.GC.Age/4, bucketCollectWait
	b.ends = append(b.ends, bucket.Close)
	if cfg.HTTP.Secret.Empty() && shared {
		log.Info("set http.secret to the same value at all replicas, if there are several, so that uploads can move between them")
	}
	return nil
}

func openS3(ctx context.Context, c *config.S3, log *zap.Logger) (object.Bucket, error) {
	if c.SkipVerify {
		log.Warn("storage.s3.skipverify: anyone on the network path can read and change everything; cafile is the safe way")
	}
	region := c.Region
	if region == "" {
		region = "us-east-1" // what servers take that know no regions
	}
	return s3.Open(ctx, s3.Config{
		AccessKey: c.AccessKey.Reveal(), SecretKey: c.SecretKey.Reveal(), SessionToken: c.SessionToken.Reveal(),
		Region: region, Endpoint: c.RegionEndpoint, Bucket: c.Bucket, Root: strings.Trim(c.RootDirectory, "/"),
		PathStyle: c.PathStyle(), Insecure: !c.Secure, SkipVerify: c.SkipVerify, CAFile: c.CAFile,
		DualStack: c.UseDualStack, Accelerate: c.Accelerate, FIPS: c.UseFIPSEndpoint,
		Encrypt: c.Encrypt, KeyID: c.KeyID, StorageClass: c.StorageClass, ACL: c.ObjectACL,
		UserAgent: c.UserAgent, PublicEndpoint: c.RedirectEndpoint,
	})
}
