package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/registry/internal/config"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/registry/quota"
	"slipway/registry/internal/registry/validation"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/filesystem"
	"slipway/registry/internal/storage/instrumented"
	"slipway/registry/internal/storage/memory"
	"slipway/shared/build"
)

// Backend is the storage with what the configuration and a probe tell about it.
type Backend struct {
	storage.Store
	driver   string            // its key in the configuration
	Root     string            // root directory of files, otherwise ""
	Remote   bool              // it is reached by a network
	replicas bool              // several processes may serve it
	signer   storage.URLSigner // lets clients read from the storage itself; nil = it cannot
	full     error             // a bucket without space, where only what frees some works
	ends     []func() error
}

// Close closes the storage, and then what it stands on.
func (b *Backend) Close() error {
	err := b.Store.Close()
	for _, end := range b.ends {
		err = errors.Join(err, end())
	}
	return err
}

// OpenBackend opens the storage that the configuration names. It creates nothing.
func OpenBackend(ctx context.Context, cfg *config.Config, log *zap.Logger, info build.Info) (*Backend, error) {
	s := &cfg.Storage
	switch {
	case s.Filesystem != nil:
		root, err := filepath.Abs(s.Filesystem.RootDirectory)
		if err != nil {
			return nil, err
		}
		files, err := filesystem.Open(root, layout.Auth)
		if err != nil {
			return nil, fmt.Errorf("storage.filesystem.rootdirectory: %w", err)
		}
		return &Backend{Store: files, driver: "filesystem", Root: root}, nil
	case s.InMemory != nil:
		return &Backend{Store: memory.New(), driver: "inmemory"}, nil
	}
	bucket, err := openBucket(ctx, s, log, "slipway-registry/"+info.Version)
	if err != nil {
		return nil, err
	}
	b := &Backend{driver: bucket.driver, Remote: true}
	if err := b.useBucket(ctx, bucket, cfg, log); err != nil {
		return nil, err
	}
	return b, nil
}

// instrument logs the operations of the storage, counts them if there are metrics, and calls failed after each that
// fails.
func (b *Backend) instrument(log *zap.Logger, metrics *prometheus.Registry, failed func()) {
	if metrics == nil {
		b.Store = instrumented.New(b.Store, b.driver, log, failed, nil)
	} else {
		b.Store = instrumented.New(b.Store, b.driver, log, failed, metrics)
	}
}

func registryOptions(cfg *config.Config, b *Backend, log *zap.Logger) registry.Options {
	return registry.Options{
		Store:           b.Store,
		Log:             log,
		DeleteEnabled:   cfg.Storage.Delete.Enabled,
		KeepDeleted:     cfg.Storage.Delete.Keep,
		IndexParents:    len(cfg.Policy.Signatures) > 0,
		ReadOnly:        cfg.Storage.Maintenance.ReadOnly.Enabled,
		Validation:      validationRules(&cfg.Validation, &cfg.Policy),
		Immutable:       immutable(cfg.Storage.Maintenance.Immutable),
		ManifestCache:   int64(cfg.Slipway.Manifests.Cache),
		MaxManifestSize: int64(cfg.Slipway.Manifests.MaxSize),
		Remote:          b.Remote,
	}
}

// openQuotas returns nil if the configuration has none.
func openQuotas(cfg *config.Config, b *Backend, log *zap.Logger) *quota.Quotas {
	list := Quotas(cfg)
	if len(list) == 0 || cfg.Storage.Maintenance.ReadOnly.Enabled {
		return nil
	}
	return quota.New(b.Store, list, log)
}

// Quotas returns the quotas of the configuration.
func Quotas(cfg *config.Config) (list []quota.Quota) {
	for _, q := range cfg.Slipway.Quotas {
		list = append(list, quota.Quota{Prefix: oci.Name(q.Prefix), Limit: int64(q.Limit)})
	}
	return list
}

func validationRules(v *config.Validation, p *config.Policy) validation.Rules {
	rules := validation.Rules{
		Disabled:  v.Disabled,
		AllowURLs: compile(v.Manifests.URLs.Allow),
		DenyURLs:  compile(v.Manifests.URLs.Deny),
		Classes:   p.Repository.Classes,
	}
	switch v.Manifests.Indexes.Platforms {
	case "none":
		rules.Platforms = validation.PlatformsNone
	case "list":
		rules.Platforms = validation.PlatformsListed
	}
	for _, p := range v.Manifests.Indexes.PlatformList {
		rules.PlatformList = append(rules.PlatformList, oci.Platform{Architecture: p.Architecture, OS: p.OS})
	}
	return rules
}

func immutable(rules []config.TagRule) []registry.TagRule {
	compiled := make([]registry.TagRule, len(rules))
	for i, rule := range rules {
		compiled[i] = registry.TagRule{Repositories: pattern.MustNames(rule.Repositories), Tags: pattern.MustTags(rule.Tags)}
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
