package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/registry/internal/collect"
	"slipway/registry/internal/config"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/proxy"
	"slipway/registry/internal/upstream"
	settings "slipway/shared/config"
	"slipway/shared/health"
)

// openProxy makes the caches that the configuration names; nil if it names none.
func openProxy(cfg *config.Config, log *zap.Logger, metrics *prometheus.Registry) (*proxy.Cache, error) {
	p := &cfg.Proxy
	if !p.Enabled() {
		return nil, nil //nolint:nilnil // nothing is a cache
	}
	o := proxy.Options{
		Local: names(p.Local), AnyNamespace: p.RemoteURL != "", CommitTimeout: p.CacheWriteTimeout,
		Log: log, Metrics: measured(metrics, proxy.NewMetrics),
	}
	all := p.All()
	for i := range all {
		source, err := openSource(cfg, &all[i], o.Metrics)
		if err != nil {
			return nil, err
		}
		o.Sources = append(o.Sources, source)
	}
	return proxy.New(o), nil
}

// cachesOf selects the repositories that are a cache; nil if none is.
func cachesOf(cache *proxy.Cache) func(oci.Name) bool {
	if cache == nil {
		return nil
	}
	return cache.Caches
}

func openSource(cfg *config.Config, u *config.ProxyUpstream, metrics *proxy.Metrics) (*proxy.Source, error) {
	remote, err := url.Parse(u.RemoteURL)
	if err != nil {
		return nil, errors.New("proxy: remoteurl is not a URL")
	}
	if u.DockerHub() {
		remote.Host = "registry-1.docker.io" // the other names of it are those of its website
	}
	roots, err := certificates(u.CA)
	if err != nil {
		return nil, err
	}
	login := upstream.Password(u.Username, u.Password.Reveal())
	if u.Exec != nil {
		login = upstream.Helper(u.Exec.Command, remote.Host, u.Exec.Lifetime)
	}
	source := &proxy.Source{
		Name: u.Name(), Prefix: oci.Name(u.Prefix), Namespaces: u.StandsFor(), Library: u.DockerHub() && cfg.Proxy.RemoteURL == "",
		TagTTL: u.TagTTL, TTL: u.TTL, Offline: u.Offline || cfg.Proxy.Offline, PerHour: u.PullsPerHour,
	}
	source.Client = upstream.New(upstream.Options{
		URL: remote, Credentials: login, Realms: u.TrustedRealms, CAs: roots, MaxConns: u.MaxConns, Timeout: u.Timeout, Stall: u.Timeout,
		MaxManifest: int64(cfg.Slipway.Manifests.MaxSize), UserAgent: "slipway/" + built().Version, Limit: metrics.LimitOf(source.Name),
	})
	return source, nil
}

// certificates are those of the system and of the file; nil stands for the former.
func certificates(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("proxy: ca: %w", settings.Unreadable(path, err))
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("proxy: ca: %s holds no certificate in PEM", path)
	}
	return pool, nil
}

// upstreamChecks are health checks that warn: what is cached is served without upstreams.
func upstreamChecks(cache *proxy.Cache) []health.Check {
	if cache == nil {
		return nil
	}
	var checks []health.Check
	for _, s := range cache.Sources() {
		if !s.Offline {
			checks = append(checks, health.Check{Name: "upstream_" + s.Name, Interval: upstreamCheckInterval, Timeout: upstreamCheckInterval / 2, Threshold: 2, Warning: true, Func: s.Check})
		}
	}
	return checks
}

// upstreamCheckInterval is the time between two questions whether an upstream answers.
const upstreamCheckInterval = 30 * time.Second

// evict returns the job that removes from the caches what has to go, and then its bytes: on
// one replica at a time, which tells the others what it has counted.
func (m *maintenance) evict(interval time.Duration) func(context.Context) {
	search := m.oneReplica("evict", interval, m.searchCaches)
	return func(ctx context.Context) {
		if m.store.replicas {
			m.cache.LearnSize(ctx, m.store)
		}
		if m.cache.EvictionDue(int64(m.cfg.Proxy.MaxSize)) {
			search(ctx)
		}
		// The run before kept what clients had asked for within the grace period.
		if !m.freed.IsZero() && m.freed != never && time.Now().After(m.freed) {
			m.collectCaches(ctx)
			m.freed = never
		}
	}
}

func (m *maintenance) searchCaches(ctx context.Context) {
	age := m.cfg.Storage.Maintenance.GC.Age
	o := proxy.EvictOptions{Store: m.store, Registry: m.rules, Pulls: m.pulls, MaxSize: int64(m.cfg.Proxy.MaxSize), Recent: age, Share: m.store.replicas}
	done, err := m.cache.Evict(ctx, o)
	if err != nil && ctx.Err() == nil {
		m.log.Warn("eviction from the caches is not complete", zap.Error(err))
	}
	loose := done.Loose > 0 && m.freed.Equal(never)    // else they are looked at soon
	if done.Evicted > 0 || loose || m.freed.IsZero() { // at the start, a run before may have been interrupted
		m.collectCaches(ctx)
		m.freed = time.Now().Add(age + time.Second)
	}
}

// never is a time that does not come.
var never = time.Unix(1<<40, 0)

// collectCaches frees the bytes of what has left the caches. Without a limit, collections by
// schedule are soon enough, where there are any.
func (m *maintenance) collectCaches(ctx context.Context) {
	gc := m.cfg.Storage.Maintenance.GC
	if ctx.Err() != nil || m.cfg.Proxy.MaxSize == 0 && gc.Enabled {
		return
	}
	_ = collect.RunScheduled(ctx, collect.Options{Store: m.store, Coordinator: m.store.coordinator, Wait: m.store.collectWait, Log: m.log, Age: gc.Age, Remote: m.store.root == ""}, m.collected) // it logs what fails
}

// syncMirror fetches ahead of time what the configuration names.
func (m *maintenance) syncMirror(ctx context.Context) error {
	report, err := m.cache.Sync(ctx, m.rules, syncImages(&m.cfg.Proxy.Sync), nil)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fields := []zap.Field{zap.Int("images", report.Images), zap.Int("blobs", report.Blobs), zap.Int64("bytes", report.Bytes), zap.Int("failed", report.Failed), zap.Error(err)}
	if err != nil {
		m.log.Warn("mirror sync is not complete", fields...)
		return err
	}
	m.log.Info("mirror sync finished", fields...)
	return nil
}

func syncImages(s *config.ProxySync) []proxy.Image {
	images := make([]proxy.Image, len(s.Images))
	for i, image := range s.Images {
		images[i] = proxy.Image{Repository: oci.Name(image.Repository), Tags: tags(image.Tags), Platforms: image.Platforms}
	}
	return images
}
