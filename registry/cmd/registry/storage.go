package main

import (
	"errors"
	"regexp"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/registry/internal/config"
	"slipway/registry/internal/driver"
	"slipway/registry/internal/driver/filesystem"
	"slipway/registry/internal/driver/memory"
	"slipway/registry/internal/driver/watched"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/registry"
)

// openStorage opens the storage and puts an eye on it.
func openStorage(cfg *config.Config, log *zap.Logger, metrics *prometheus.Registry) (driver.Driver, error) {
	d, err := openDriver(cfg)
	if err != nil {
		return nil, err
	}
	if metrics == nil {
		return watched.New(d, log, nil), nil
	}
	return watched.New(d, log, metrics), nil
}

// openDriver is the choice of the driver.
func openDriver(cfg *config.Config) (driver.Driver, error) {
	switch s := &cfg.Storage; {
	case s.Filesystem != nil:
		return filesystem.Open(s.Filesystem.RootDirectory)
	case s.InMemory != nil:
		return memory.New(), nil
	default:
		return nil, errors.New("the configuration names no storage")
	}
}

func registryOptions(cfg *config.Config, store driver.Driver, log *zap.Logger) registry.Options {
	return registry.Options{
		Driver:          store,
		Log:             log,
		DeleteEnabled:   cfg.Storage.Delete.Enabled,
		ReadOnly:        cfg.Storage.Maintenance.ReadOnly.Enabled,
		Validation:      validation(&cfg.Validation, &cfg.Policy),
		Immutable:       immutable(cfg.Storage.Maintenance.Immutable),
		ManifestCache:   int64(cfg.Slipway.Manifests.Cache),
		MaxManifestSize: int64(cfg.Slipway.Manifests.MaxSize),
		PromiseAge:      cfg.Storage.Maintenance.GC.Age,
	}
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
