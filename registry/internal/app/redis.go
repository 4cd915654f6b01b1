package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	client "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/zap"

	"slipway/registry/internal/cache/redis"
	"slipway/registry/internal/config"
	"slipway/shared/fileerror"
)

// openRedis is nil unless the configuration asks for the cache. It does not connect.
func openRedis(cfg *config.Config, log *zap.Logger, metrics *prometheus.Registry) (*redis.Cache, error) {
	if cfg.Storage.Cache.BlobDescriptor != "redis" {
		if cfg.Redis != nil && len(cfg.Redis.Addresses()) > 0 {
			log.Warn("redis is not used: storage.cache.blobdescriptor is not redis")
		}
		return nil, nil //nolint:nilnil // there need not be one
	}
	o, err := redisOptions(cfg.Redis)
	if err != nil {
		return nil, err
	}
	client.SetLogger(libraryLog{log})
	return redis.New(o, log, measured(metrics, redis.NewMetrics)), nil
}

// libraryLog has the lines that the library writes: failures of single connections.
type libraryLog struct{ *zap.Logger }

// Printf implements the library's interface of a logger.
func (l libraryLog) Printf(_ context.Context, format string, v ...any) {
	l.Debug("redis client", zap.String("detail", fmt.Sprintf(format, v...)))
}

// redisOptions leaves nothing to the library that waits or tries again without end.
func redisOptions(r *config.Redis) (*client.UniversalOptions, error) {
	o := &client.UniversalOptions{
		Addrs: r.Addresses(), MasterName: r.MasterName, DB: r.DB, ClientName: r.ClientName, Protocol: r.Protocol,
		Username: r.Username, Password: r.Password.Reveal(),
		SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword.Reveal(),
		DisableIdentity: r.DisableIdentity, IdentitySuffix: r.IdentitySuffix,
		DialTimeout: r.DialTimeout, ReadTimeout: r.ReadTimeout, WriteTimeout: r.WriteTimeout,
		ContextTimeoutEnabled: true, DialerRetries: 1,
		MaxRetries: r.MaxRetries, MinRetryBackoff: r.MinRetryBackoff, MaxRetryBackoff: r.MaxRetryBackoff,
		PoolSize: r.PoolSize, PoolFIFO: r.PoolFIFO, PoolTimeout: r.PoolTimeout,
		MinIdleConns: r.MinIdleConns, MaxIdleConns: cmp.Or(r.MaxIdleConns, r.Pool.MaxIdle), MaxActiveConns: cmp.Or(r.MaxActiveConns, r.Pool.MaxActive),
		ConnMaxIdleTime: cmp.Or(r.ConnMaxIdleTime, r.Pool.IdleTimeout), ConnMaxLifetime: r.ConnMaxLifetime,
		MaxRedirects: r.MaxRedirects, ReadOnly: r.ReadOnly, RouteByLatency: r.RouteByLatency, RouteRandomly: r.RouteRandomly,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if o.MaxRetries == 0 {
		o.MaxRetries = -1 // 0 is the library's default, 3
	}
	if o.PoolTimeout == 0 {
		o.PoolTimeout = r.ReadTimeout
	}
	if !r.TLS.On() {
		return o, nil
	}
	o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if r.TLS.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(r.TLS.Certificate, r.TLS.Key)
		if err != nil {
			return nil, fmt.Errorf("redis.tls: %w", err)
		}
		o.TLSConfig.Certificates = []tls.Certificate{pair}
	}
	if len(r.TLS.RootCAs) > 0 {
		o.TLSConfig.RootCAs = x509.NewCertPool()
	}
	for i, path := range r.TLS.RootCAs {
		pem, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("redis.tls.rootcas[%d]: %w", i, fileerror.Explain(path, err))
		}
		if !o.TLSConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("redis.tls.rootcas[%d]: %w", i, errors.New(path+" holds no certificate in PEM"))
		}
	}
	return o, nil
}
