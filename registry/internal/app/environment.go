package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/registry/internal/config"
	"slipway/registry/internal/lastpull"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/proxy"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/registry/quota"
	"slipway/registry/internal/replication"
	"slipway/registry/internal/storage"
	"slipway/shared/build"
)

// Environment is the storage of a configuration and the registry over it, which a server and the
// commands that run next to it share.
type Environment struct {
	Config   *config.Config
	Build    build.Info
	Log      *zap.Logger
	Store    *Backend
	Registry *registry.Registry
	Cache    *proxy.Registry // nil = no repository is a cache
	Pulls    *lastpull.File

	quotas *quota.Quotas // nil = none
}

// Open opens the environment of a command. It creates nothing: a root directory that doesn't
// exist is an error. With changes false, failed operations of the storage aren't logged, and changes aren't noted for
// replication.
func Open(ctx context.Context, cfg *config.Config, b build.Info, log *zap.Logger, changes bool) (*Environment, error) {
	if err := RootExists(cfg); err != nil {
		return nil, err
	}
	e := &Environment{Config: cfg, Build: b, Log: log}
	quiet := log
	if log.Level() == zap.InfoLevel { // which object store was opened matters to servers
		quiet = log.WithOptions(zap.IncreaseLevel(zap.WarnLevel))
	}
	var err error
	if e.Store, err = OpenBackend(ctx, cfg, quiet, b); err != nil {
		return nil, err
	}
	if changes || log.Level() == zap.DebugLevel {
		e.Store.instrument(log, nil, func() {})
	}
	e.Pulls = lastpull.NewFile(e.Store)
	o := registryOptions(cfg, e.Store, log)
	if e.quotas = openQuotas(cfg, e.Store, log); e.quotas != nil {
		o.Quota = e.quotas
	}
	var copies *replication.Replicator
	o.Changed = func(name oci.Name, d oci.Digest, tags []oci.Tag) { copies.Changed(name, d, tags) }
	e.Registry = registry.New(o)
	err = e.openCaches(nil, nil)
	if err == nil && changes {
		copies, err = e.Replication()
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// RootExists refuses a root directory that is missing: it may be misspelled.
func RootExists(cfg *config.Config) error {
	fs := cfg.Storage.Filesystem
	if fs == nil {
		return nil
	}
	_, err := os.Stat(fs.RootDirectory)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("storage.filesystem.rootdirectory: %s does not exist: correct the path, mount the volume there, or start the registry once, which makes it", fs.RootDirectory)
	case err != nil:
		return fmt.Errorf("storage.filesystem.rootdirectory: %w", err)
	}
	return nil
}

// Close closes the storage.
func (e *Environment) Close() error {
	if e.Cache != nil {
		e.Cache.Close()
	}
	if e.quotas != nil {
		e.quotas.Close()
	}
	return e.Store.Close()
}

// openCaches opens the caches around the registry. pulled may be nil.
func (e *Environment) openCaches(pulled func(oci.Name, oci.Digest), metrics *prometheus.Registry) (err error) {
	e.Cache, err = openProxy(e.Config, proxy.Options{Registry: e.Registry, Pulled: pulled, Log: e.Log}, e.Build, metrics)
	return err
}

// Caches selects the repositories that are caches; it returns nil if none is.
func (e *Environment) Caches() func(oci.Name) bool { return cachesOf(e.Cache) }

// Puller returns a repository as clients pull it, through its upstream if it is a cache.
func (e *Environment) Puller(name oci.Name) registry.Puller {
	if e.Cache != nil {
		return e.Cache.Puller(name)
	}
	return e.Registry.Repository(name)
}

// joinEvery is the interval at which a start asks whether an offline garbage collection has ended.
const joinEvery = 200 * time.Millisecond

// Join keeps offline garbage collections from starting until leave is called. It waits for one
// in progress. Without write access to the storage there is nothing to join.
func (e *Environment) Join(ctx context.Context) (leave func(), err error) {
	if e.Config.Storage.Maintenance.ReadOnly.Enabled {
		return func() {}, nil
	}
	for waiting := false; ; waiting = true {
		leave, err := e.Store.Lock(ctx, storage.LockServers, true)
		switch {
		case errors.Is(err, storage.ErrReadOnly), errors.Is(err, storage.ErrDenied):
			e.Log.Warn("the storage cannot be written: only pulls work", zap.Error(err))
			return func() {}, nil
		case !errors.Is(err, storage.ErrBusy):
			return leave, err
		case !waiting:
			e.Log.Warn("waiting for the end of an offline garbage collection", zap.Error(err))
		}
		select {
		case <-time.After(joinEvery):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
