package app

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway/registry/internal/config"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/proxy"
	"slipway/registry/internal/proxy/upstream"
	"slipway/shared/build"
	"slipway/shared/fileerror"
	"slipway/shared/health"
)

// openProxy makes the caches that the configuration names around o.Registry. It returns nil if the
// configuration names none.
func openProxy(cfg *config.Config, o proxy.Options, b build.Info, metrics *prometheus.Registry) (*proxy.Registry, error) {
	p := &cfg.Proxy
	if !p.Enabled() {
		return nil, nil //nolint:nilnil // nothing is a cache
	}
	o.Local, o.CommitTimeout, o.Metrics = pattern.MustNames(p.Local), p.CacheWriteTimeout, measured(metrics, proxy.NewMetrics)
	o.Spool, o.SpoolMax = proxySpool(cfg), int64(p.SpoolMax)
	all := p.All()
	for i := range all {
		source, err := openSource(cfg, &all[i], b, o.Metrics)
		if err != nil {
			return nil, err
		}
		o.Sources = append(o.Sources, source)
	}
	return proxy.New(o), nil
}

// proxySpool is the directory for blobs that are being fetched. The volume of the storage has
// room for blobs; the rest of a container's file system may be small or read-only.
func proxySpool(cfg *config.Config) string {
	switch {
	case cfg.Proxy.Spool != "":
		return cfg.Proxy.Spool
	case cfg.Storage.Filesystem != nil:
		return filepath.Join(cfg.Storage.Filesystem.RootDirectory, layout.ProxySpool)
	default:
		return cfg.Slipway.ObjectStore.Spool
	}
}

// CacheNames is openProxy for the names of the caches alone: nothing is read or asked.
func CacheNames(cfg *config.Config) (*proxy.Registry, error) {
	return openProxy(cfg, proxy.Options{}, build.Info{}, nil)
}

// cachesOf selects the repositories that are a cache; it returns nil if none is.
func cachesOf(cache *proxy.Registry) func(oci.Name) bool {
	if cache == nil {
		return nil
	}
	return cache.Caches
}

func openSource(cfg *config.Config, u *config.ProxyUpstream, b build.Info, metrics *proxy.Metrics) (*proxy.Source, error) {
	remote, err := url.Parse(u.RemoteURL)
	if err != nil {
		return nil, errors.New("proxy: remoteurl is not a URL")
	}
	if u.DockerHub() {
		remote.Host = "registry-1.docker.io" // the other names of it are those of its website
	}
	roots, err := certificates(u.CA, "proxy")
	if err != nil {
		return nil, err
	}
	login := upstream.Password(u.Username, u.Password.Reveal())
	switch {
	case u.Exec != nil:
		login = upstream.Helper(u.Exec.Command, remote.Host, u.Exec.Lifetime)
	case u.Password.File() != "":
		login = upstream.PasswordFile(u.Username, u.Password.Reveal(), u.Password.Reread)
	}
	source := &proxy.Source{
		Name: u.Name(), Prefix: oci.Name(u.Prefix), Namespaces: u.StandsFor(), Library: u.DockerHub() && cfg.Proxy.RemoteURL == "",
		TagTTL: u.TagTTL, TTL: u.TTL, Offline: u.Offline || cfg.Proxy.Offline,
	}
	source.Client = upstream.New(upstream.Options{
		URL: remote, Credentials: login, Realms: u.TrustedRealms, CAs: roots, Timeout: u.Timeout, Stall: u.Timeout,
		MaxManifest: int64(cfg.Slipway.Manifests.MaxSize), PrivateRedirects: u.PrivateRedirects, UserAgent: "slipway/" + b.Version, Limit: metrics.LimitOf(source.Name),
	})
	return source, nil
}

// certificates returns the certificates of the system and of the file; nil stands for the former.
func certificates(path, section string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: ca: %w", section, fileerror.Explain(path, err))
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: ca: %s holds no certificate in PEM", section, path)
	}
	return pool, nil
}

// upstreamChecks are health checks that only warn: cached images are served without upstreams.
func upstreamChecks(cache *proxy.Registry) []health.Check {
	if cache == nil {
		return nil
	}
	var checks []health.Check
	for _, s := range cache.Sources() {
		if !s.Offline {
			checks = append(checks, health.Check{Name: "upstream_" + s.Name, Interval: upstreamCheckInterval, Timeout: upstreamCheckInterval / 2, Threshold: 2, Immediate: true, Warning: true, Func: s.Check})
		}
	}
	return checks
}

// upstreamCheckInterval is the time between two questions whether an upstream answers.
const upstreamCheckInterval = 30 * time.Second
