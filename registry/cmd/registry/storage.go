package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/registry/internal/config"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/proxy"
	"slipway/registry/internal/quota"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/filesystem"
	"slipway/registry/internal/storage/instrumented"
	"slipway/registry/internal/storage/memory"
	"slipway/registry/internal/takeover"
)

// backend is the storage, and what the processes that share it agree by.
type backend struct {
	storage.Store
	coordinator storage.Coordinator
	driver      string // its key in the configuration
	root        string // of files, else ""
	replicas    bool   // several processes may serve it
	remote      bool   // it is reached by a network
	renewAfter  time.Duration
	collectWait time.Duration // how long a list of a collection may wait for writers; 0 = as on files
	ends        []func() error
}

// Close closes the storage, and then what it stands on.
func (b *backend) Close() error {
	err := b.Store.Close()
	for _, end := range b.ends {
		err = errors.Join(err, end())
	}
	return err
}

// openBackend opens the storage that the configuration names. It creates nothing.
func openBackend(ctx context.Context, cfg *config.Config, log *zap.Logger) (*backend, error) {
	b := &backend{renewAfter: renewAfter}
	switch s := &cfg.Storage; {
	case s.Filesystem != nil:
		root, err := filepath.Abs(s.Filesystem.RootDirectory)
		if err != nil {
			return nil, err
		}
		files, err := filesystem.Open(root)
		if err != nil {
			return nil, fmt.Errorf("storage.filesystem.rootdirectory: %w", err)
		}
		b.Store, b.coordinator, b.driver, b.root = files, files.Coordinator(), "filesystem", root
	case s.InMemory != nil:
		m := memory.New()
		b.Store, b.coordinator, b.driver = m, m, "inmemory"
	case s.S3 != nil:
		bucket, err := openS3(ctx, s.S3, log)
		if err != nil {
			return nil, err
		}
		if err := b.useBucket(ctx, "s3", bucket, s.S3.RootDirectory, cfg, log); err != nil {
			return nil, err
		}
	case s.Azure != nil:
		bucket, err := openAzure(ctx, s.Azure, log)
		if err != nil {
			return nil, err
		}
		if err := b.useBucket(ctx, "azure", bucket, s.Azure.RootDirectory, cfg, log); err != nil {
			return nil, err
		}
	case s.GCS != nil:
		bucket, err := openGCS(ctx, s.GCS, log)
		if err != nil {
			return nil, err
		}
		if err := b.useBucket(ctx, "gcs", bucket, s.GCS.RootDirectory, cfg, log); err != nil {
			return nil, err
		}
	default:
		return nil, errors.New("the configuration names no storage")
	}
	return b, nil
}

// instrument logs the operations of the storage, and counts them if there are metrics.
func (b *backend) instrument(log *zap.Logger, metrics *prometheus.Registry) {
	if metrics == nil {
		b.Store = instrumented.New(b.Store, b.driver, log, nil)
	} else {
		b.Store = instrumented.New(b.Store, b.driver, log, metrics)
	}
}

// takeOver puts right what a version of the registry has left that moved objects
// while it worked. It fails beside a process of that version.
func (b *backend) takeOver(ctx context.Context, log *zap.Logger) error {
	if b.root == "" || !takeover.Pending(b.root) {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, joinWait)
	defer cancel()
	lease, err := b.coordinator.Join(wait)
	switch {
	case errors.Is(err, filesystem.ErrOldVersion):
		return besideOldVersion(b.root)
	case err != nil && !takeover.Moved(b.root):
		return nil //nolint:nilerr // what is left takes no more than a little room
	case err != nil:
		return fmt.Errorf("the storage holds objects that an older version of the registry has moved: %w", err)
	}
	defer lease.Release()
	report, err := takeover.Run(ctx, b.root, b.Store)
	log.Info("volume of an older version taken over", zap.Int("restored", report.Restored), zap.Int("deletions", report.Deletions), zap.Error(err))
	return err
}

// besideOldVersion says why nothing can be done.
func besideOldVersion(root string) error {
	return fmt.Errorf("%s: %w; stop it, or wait until it has ended", root, filesystem.ErrOldVersion)
}

// warnMoved says what a command does not see that only reads.
func (b *backend) warnMoved(log *zap.Logger) {
	if b.root != "" && takeover.Moved(b.root) {
		log.Warn("the storage holds objects that an older version of the registry has moved and that are not seen now; starting the registry restores them")
	}
}

// renewAfter is the age from which a link is renewed when a client learns that it
// exists: on files nearly every time. A garbage collection by command knows only of
// what was renewed.
const renewAfter = 20 * time.Millisecond

func registryOptions(cfg *config.Config, b *backend, cache *proxy.Cache, log *zap.Logger) registry.Options {
	o := registry.Options{
		Store:           b.Store,
		Coordinator:     b.coordinator,
		Log:             log,
		DeleteEnabled:   cfg.Storage.Delete.Enabled,
		ReadOnly:        cfg.Storage.Maintenance.ReadOnly.Enabled,
		Validation:      validation(&cfg.Validation, &cfg.Policy),
		Immutable:       immutable(cfg.Storage.Maintenance.Immutable),
		ManifestCache:   int64(cfg.Slipway.Manifests.Cache),
		MaxManifestSize: int64(cfg.Slipway.Manifests.MaxSize),
		Grace:           cfg.Storage.Maintenance.GC.Age,
		RenewAfter:      b.renewAfter,
		Remote:          b.remote,
	}
	if cache != nil {
		o.Upstream = cache
	}
	return o
}

// openQuotas is nil where the configuration has none.
func openQuotas(cfg *config.Config, b *backend, log *zap.Logger) *quota.Quotas {
	list := quotas(cfg)
	if len(list) == 0 || cfg.Storage.Maintenance.ReadOnly.Enabled {
		return nil
	}
	return quota.New(b.Store, b.coordinator, list, log)
}

func quotas(cfg *config.Config) (list []quota.Quota) {
	for _, q := range cfg.Slipway.Quotas {
		list = append(list, quota.Quota{Prefix: oci.Name(q.Prefix), Limit: int64(q.Limit)})
	}
	return list
}

func validation(v *config.Validation, p *config.Policy) registry.Validation {
	rules := registry.Validation{
		Disabled:  v.Disabled,
		AllowURLs: compile(v.Manifests.URLs.Allow),
		DenyURLs:  compile(v.Manifests.URLs.Deny),
		Classes:   p.Repository.Classes,
	}
	switch v.Manifests.Indexes.Platforms {
	case "none":
		rules.Platforms = registry.PlatformsNone
	case "list":
		rules.Platforms = registry.PlatformsListed
	}
	for _, p := range v.Manifests.Indexes.PlatformList {
		rules.PlatformList = append(rules.PlatformList, oci.Platform{Architecture: p.Architecture, OS: p.OS})
	}
	return rules
}

func immutable(rules []config.TagRule) []registry.TagRule {
	compiled := make([]registry.TagRule, len(rules))
	for i, rule := range rules {
		compiled[i] = registry.TagRule{Repositories: names(rule.Repositories), Tags: tags(rule.Tags)}
	}
	return compiled
}

// names and tags take patterns that the configuration has already been checked
// for.
func names(patterns []string) pattern.Names {
	compiled, err := pattern.ParseNames(patterns)
	if err != nil {
		panic(err)
	}
	return compiled
}

func tags(expressions []string) pattern.Tags {
	compiled, err := pattern.ParseTags(expressions)
	if err != nil {
		panic(err)
	}
	return compiled
}

// compile takes expressions that the configuration has already been checked
// for.
func compile(expressions []string) []*regexp.Regexp {
	var compiled []*regexp.Regexp
	for _, e := range expressions {
		compiled = append(compiled, regexp.MustCompile(e))
	}
	return compiled
}
