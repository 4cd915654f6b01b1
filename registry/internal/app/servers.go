package app

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"net/http"
	"strings"

	"go.uber.org/zap"

	"slipway/registry/internal/api"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/config"
	"slipway/registry/internal/storage"
	"slipway/shared/server"
)

// newAPI completes the options with what the configuration says.
func newAPI(cfg *config.Config, o api.Options) (*api.API, error) {
	o.Prefix, o.Host, o.RelativeURLs = cfg.HTTP.Prefix, cfg.HTTP.Host, cfg.HTTP.RelativeURLs
	o.Headers = http.Header(cfg.HTTP.Headers)
	o.TrustedProxies, o.TrustUnix, _ = cfg.HTTP.Proxies() // checked with the configuration
	o.Namespaces = cfg.Proxy.Namespaces
	o.NoRedirect, _ = cfg.Storage.Redirect.Excluded() // as above
	o.DeleteEnabled, o.ReadOnly = cfg.Storage.Delete.Enabled, cfg.Storage.Maintenance.ReadOnly.Enabled
	o.CatalogMax, o.TagsMax = cfg.Catalog.MaxEntries, cfg.Tags.MaxTags
	o.MaxManifestSize = int64(cfg.Slipway.Manifests.MaxSize)
	o.Limits = auth.NewLimits(auth.Limit(cfg.Slipway.Limits.User), auth.Limit(cfg.Slipway.Limits.Address))
	return api.New(o)
}

// uploadSecret signs the state of uploads and, where nobody can log in, the forms of the pages.
func uploadSecret(cfg *config.Config, log *zap.Logger) []byte {
	secret := []byte(cfg.HTTP.Secret.Reveal())
	if len(secret) == 0 {
		log.Warn("http.secret is not set: uploads cannot move between replicas or survive a restart")
		secret = make([]byte, 32)
		_, _ = rand.Read(secret) // never fails
	}
	return secret
}

// listen binds the addresses: the registry's first, then the debug server's.
func listen(cfg *config.Config, store storage.Store, log *zap.Logger, handler, debug http.Handler) ([]*server.Server, error) {
	limits := cfg.Slipway.HTTP
	o := server.Options{
		Name: "main", Network: cfg.HTTP.Net, Addr: cfg.HTTP.Addr, Handler: handler, Log: log,
		TLS: tlsOptions(cfg.HTTP.TLS, store), DisableHTTP2: cfg.HTTP.HTTP2.Disabled, H2C: cfg.HTTP.H2C.Enabled,

		StallTimeout: limits.StallTimeout, MinRate: int64(limits.MinRate), MaxConns: limits.MaxConns,
	}
	main, err := server.Listen(o)
	if err != nil {
		return nil, server.ExplainListen(err, "http.addr", cfg.HTTP.Addr)
	}
	if cfg.HTTP.Debug.Addr == "" {
		return []*server.Server{main}, nil
	}
	second, err := server.Listen(server.Options{Name: "debug", Addr: cfg.HTTP.Debug.Addr, Handler: debug, Log: log, MaxConns: 100})
	if err != nil {
		return nil, errors.Join(server.ExplainListen(err, "http.debug.addr", cfg.HTTP.Debug.Addr), main.Close())
	}
	return []*server.Server{main, second}, nil
}

func tlsOptions(t *config.TLS, store storage.Store) *server.TLS {
	if t == nil {
		return nil
	}
	return &server.TLS{
		Certificate: t.Certificate, Key: t.Key, ACME: acmeOptions(t.LetsEncrypt, store),
		MinVersion: t.MinimumTLS, CipherSuites: cipherSuites(t), ClientCAs: t.ClientCAs, ClientAuth: t.ClientAuth,
	}
}

// cipherSuites returns the names of the suites to offer; nil means those of crypto/tls. The default is
// that of distribution: crypto/tls offers CBC as well, which security scans report.
func cipherSuites(t *config.TLS) (names []string) {
	if len(t.CipherSuites) > 0 || t.MinimumTLS == "tls1.0" || t.MinimumTLS == "tls1.1" {
		return t.CipherSuites
	}
	for _, s := range tls.CipherSuites() {
		if strings.HasPrefix(s.Name, "TLS_ECDHE_") && !strings.Contains(s.Name, "_CBC_") {
			names = append(names, s.Name)
		}
	}
	return names
}
