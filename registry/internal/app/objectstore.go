package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/config"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/s3"
)

// probeTime bounds the probe of a store.
const probeTime = time.Minute

// bucket is the place in an object store that the configuration names.
type bucket struct {
	object.Bucket
	driver string // its key in the configuration
	root   string // the prefix of its keys
}

// openBucket opens the bucket that the configuration names.
func openBucket(ctx context.Context, s *config.Storage, log *zap.Logger, userAgent string) (b bucket, err error) {
	switch {
	case s.S3 != nil:
		b = bucket{driver: "s3", root: s.S3.RootDirectory}
		b.Bucket, err = openS3(ctx, s.S3, log)
	case s.Azure != nil:
		b = bucket{driver: "azure", root: s.Azure.RootDirectory}
		b.Bucket, err = openAzure(ctx, s.Azure, log, userAgent)
	case s.GCS != nil:
		b = bucket{driver: "gcs", root: s.GCS.RootDirectory}
		b.Bucket, err = openGCS(ctx, s.GCS, log, userAgent)
	default:
		err = errors.New("the configuration names no storage")
	}
	return b, err
}

// useBucket stores everything in a bucket.
func (b *Backend) useBucket(ctx context.Context, bucket bucket, cfg *config.Config, log *zap.Logger) error {
	client := object.NewClient(bucket.Bucket, strings.Trim(bucket.root, "/"), bucket.Limits(), object.Timing{})
	if !cfg.Storage.Maintenance.ReadOnly.Enabled {
		if err := b.probe(ctx, client, log); err != nil {
			return errors.Join(err, bucket.Close())
		}
	}
	store := object.New(client, object.Options{
		Spool: cfg.Slipway.ObjectStore.Spool, SpoolMax: int64(cfg.Slipway.ObjectStore.SpoolMax), Upload: layout.IsUpload,
		Collected: layout.IsCollected, SHA256: layout.SHA256, Log: log,
	})
	b.Store, b.replicas = store, client.Limits().ConditionalPut
	if store.Redirects() {
		b.signer = store
	}
	b.ends = append(b.ends, bucket.Close)
	if cfg.HTTP.Secret.Empty() && b.replicas {
		log.Info("set http.secret to the same value at all replicas, if there are several, so that uploads can move between them")
	}
	return nil
}

// probe finds out what the store can do, and tries again until the answer is clear.
func (b *Backend) probe(ctx context.Context, client *object.Client, log *zap.Logger) error {
	probe, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	found, err := object.Probe(probe, client)
	for pause := time.Second; errors.Is(err, storage.ErrTemporary) && probe.Err() == nil; pause *= 2 {
		log.Warn("cannot find out yet what the object store can do; trying again", zap.Error(err))
		select {
		case <-time.After(pause):
			found, err = object.Probe(probe, client)
		case <-probe.Done():
		}
	}
	switch {
	case errors.Is(err, storage.ErrNoSpace):
		b.full = fmt.Errorf("storage.%s: the bucket is full: free space first, for example with registry garbage-collect: %w", b.driver, err)
		found.ConditionalPut, found.ConditionalDelete = false, false
	case err != nil:
		return fmt.Errorf("storage.%s: cannot find out what the object store can do: %w", b.driver, err)
	}
	client.Restrict(found)
	log.Info("object store opened", zap.String("driver", b.driver), zap.Bool("conditional_put", found.ConditionalPut),
		zap.Bool("conditional_delete", found.ConditionalDelete), zap.Duration("max_late", found.MaxLate), zap.String("why", found.Why))
	if found.ListsDeleted {
		log.Info("the store lists the prefixes of deleted objects, as MinIO does in buckets with versions: listings read all names instead, which takes more requests")
	}
	if found.NoDelete != nil {
		log.Warn("nothing can be deleted: neither tags and manifests nor garbage and uploads", zap.Error(found.NoDelete))
	}
	if !found.ConditionalPut && b.full == nil {
		log.Warn("the store ignores conditional requests, so only one registry may serve this bucket", zap.String("why", found.Why))
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
