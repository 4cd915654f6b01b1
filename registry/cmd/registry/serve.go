package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"slipway/registry/internal/api"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/config"
	"slipway/registry/internal/pulls"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/filesystem"
	settings "slipway/shared/config"
	"slipway/shared/health"
	"slipway/shared/logging"
	"slipway/shared/server"
)

func newServeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve [FILE]",
		Short: "Serve the registry",
		Long: "Serves the registry with the configuration FILE, or the one that " + config.PathVariable + " names. REGISTRY_ variables take precedence " +
			"over the file. Ends after SIGTERM or SIGINT, when the requests under way are answered. " +
			"SIGHUP reloads certificates, the password file, access rules, workloads, keys of tokens and the level of the log.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			load := func() (*config.Config, *settings.Report, error) { return config.Load(fileArgument(args), os.Environ()) }
			cfg, report, err := load()
			if err != nil {
				return err
			}
			again := func() (*config.Config, error) { cfg, _, err := load(); return cfg, err }
			return serve(cmd.Context(), cfg, again, report.Warnings, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
}

// serve makes every part of the service by hand, runs it until ctx ends, and
// takes it apart in the opposite order. The log goes to stderr and the access
// log to stdout, as with CNCF distribution.
func serve(ctx context.Context, cfg *config.Config, again func() (*config.Config, error), warnings []string, stdout, stderr io.Writer) (err error) {
	signals, ignore := hangups()
	defer ignore()
	lines, accessLines := logging.NewBuffer(stderr), logging.NewBuffer(stdout)
	defer func() { err = errors.Join(err, lines.Close(), accessLines.Close()) }()
	level := zap.NewAtomicLevel()
	log, err := logging.New(lines, logging.Config{
		Level: cfg.Log.Level, Dynamic: &level, Format: logging.Format(cfg.Log.Formatter), Fields: cfg.Log.Fields, ReportCaller: cfg.Log.ReportCaller,
	})
	if err != nil {
		return err
	}
	for _, w := range warnings {
		log.Warn(w)
	}
	var access *logging.AccessLog
	if !cfg.Log.AccessLog.Disabled {
		access = logging.NewAccessLog(accessLines)
	}

	if err := errors.Join(checkFiles(cfg), checkStorage(cfg)); err != nil {
		return err
	}
	for _, w := range ruleWarnings(cfg) {
		log.Warn(w)
	}
	warnMountedReadOnly(cfg, log)
	defer tuneMemory()()
	metrics := newMetrics(cfg)
	store, err := openBackend(ctx, cfg, log)
	if err != nil {
		return err
	}
	store.instrument(log, metrics)
	defer func() { err = errors.Join(err, store.Close()) }()
	if cfg.Storage.Maintenance.ReadOnly.Enabled {
		store.warnMoved(log)
	} else if err := store.takeOver(ctx, log); err != nil {
		return err
	}
	lastPulls := pulls.NewFile(store)
	recorder := recordPulls(&cfg.Storage.Maintenance, cfg.Proxy.Enabled(), lastPulls, log)
	defer recorder.Close()
	cache, err := openProxy(cfg, log, metrics)
	if err != nil {
		return err
	}
	if cache != nil {
		defer cache.Close()
	}
	options := registryOptions(cfg, store, cache, log)
	var watches []func(context.Context)
	if options.Signer, err = blobURLs(cfg, store.Store, log, &watches); err != nil {
		return err
	}
	if recorder != nil {
		options.Pulled = recorder.Record
	}
	shared, err := openRedis(cfg, log, metrics)
	if err != nil {
		return err
	}
	if shared != nil {
		defer func() { err = errors.Join(err, shared.Close()) }()
		options.Shared = shared
	}
	bounds := openQuotas(cfg, store, log)
	if bounds != nil {
		options.Quota = bounds
	}
	if metrics != nil {
		options.Looked = countLooks(metrics)
	}
	rules := registry.New(options)

	leave, err := join(ctx, cfg, rules, log)
	if err != nil {
		return err
	}
	defer leave()

	events, err := openNotifications(cfg, log, metrics)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, events.Close()) }()

	acts, err := openAudit(cfg.Audit, accessLines, false, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, acts.Close()) }()
	watchAudit(metrics, acts)
	gate, err := openAuth(ctx, cfg, store, cache, acts, log)
	if err != nil {
		return err
	}
	defer gate.Close()
	checks := health.Start(log, healthChecks(cfg, store.remote, rules, cache)...)
	defer checks.Close()
	watchHealth(metrics, checks)

	handler, err := newAPI(cfg, gate.serve(api.Options{Audit: acts, Registry: rules, Log: log, Access: access, Metrics: measured(metrics, api.NewMetrics), Notify: events, Health: checks}))
	if err != nil {
		return err
	}
	servers, err := listen(cfg, log, handler, newDebugHandler(cfg, checks, metrics))
	if err != nil {
		return err
	}

	var background sync.WaitGroup
	defer background.Wait()
	working, stopWorking := context.WithCancel(ctx)
	defer stopWorking()
	work := maintenance{cfg: cfg, store: store, cache: cache, rules: rules, pulls: lastPulls, log: log, metrics: metrics, acts: acts}
	work.start(working, &background)
	if bounds != nil {
		defer bounds.Close()
		background.Go(func() { bounds.Count(working) })
	}
	gate.watch(working, &background)
	for _, watch := range watches {
		background.Go(func() { watch(working) })
	}
	reload := reloader{cfg: *cfg, load: again, level: &level, gate: gate, acts: acts, servers: servers, log: log}
	background.Go(func() { reload.run(working, signals) })
	log.Info("registry started", zap.String("version", built().Version), zap.String("storage", store.driver), zap.Stringer("address", servers[0].Addr()))
	err = server.Run(ctx, cfg.HTTP.DrainTimeout, servers...)
	log.Info("registry stopped")
	return err
}

// join lets the processes that share the storage know of this one, until leave: clients
// rely on what it tells them. One that accepts no pushes need not. Where it cannot join
// yet, pushes are answered with 503 until it has.
func join(ctx context.Context, cfg *config.Config, rules *registry.Registry, log *zap.Logger) (leave func(), err error) {
	if cfg.Storage.Maintenance.ReadOnly.Enabled {
		return func() {}, nil
	}
	wait, cancel := context.WithTimeout(ctx, joinWait)
	defer cancel()
	leave, err = rules.Serve(wait)
	switch {
	case err == nil:
	case errors.Is(err, filesystem.ErrOldVersion):
		leave()
		return nil, besideOldVersion(cfg.Storage.Filesystem.RootDirectory)
	case errors.Is(err, storage.ErrReadOnly), errors.Is(err, storage.ErrDenied), errors.Is(err, storage.ErrNoSpace):
		log.Warn("the storage cannot be written: pushes are answered with 503 until it can; pulls and deletions work", zap.Error(err))
	case errors.Is(err, storage.ErrBusy) && ctx.Err() == nil:
		log.Warn("an offline garbage collection is running: pushes are answered with 503 until it has ended; pulls and deletions work")
	default:
		leave()
		return nil, err
	}
	return leave, nil
}

// joinWait is how long a start waits for an offline garbage collection, which lets
// the registry in within some milliseconds.
const joinWait = 5 * time.Second

// newAPI completes the options with what the configuration says.
func newAPI(cfg *config.Config, o api.Options) (*api.API, error) {
	o.Prefix, o.Host, o.RelativeURLs = cfg.HTTP.Prefix, cfg.HTTP.Host, cfg.HTTP.RelativeURLs
	o.Headers = http.Header(cfg.HTTP.Headers)
	o.TrustedProxies, o.TrustUnix, _ = cfg.HTTP.Proxies() // checked with the configuration
	o.NoRedirect, _ = cfg.Storage.Redirect.Excluded()     // as above
	if c := cfg.HTTP.CORS; c != nil {
		o.CORS = api.CORS{Origins: c.Origins, Methods: c.Methods, Credentials: c.Credentials, MaxAge: c.MaxAge}
	}
	o.DeleteEnabled, o.ReadOnly = cfg.Storage.Delete.Enabled, cfg.Storage.Maintenance.ReadOnly.Enabled
	o.CatalogMax, o.TagsMax = cfg.Catalog.MaxEntries, cfg.Tags.MaxTags
	o.MaxManifestSize = int64(cfg.Slipway.Manifests.MaxSize)
	o.ChunkMinLength = int64(cfg.Slipway.Uploads.ChunkMinLength)
	o.Limits = auth.NewLimits(auth.Limit(cfg.Slipway.Limits.User), auth.Limit(cfg.Slipway.Limits.Address))
	o.Secret = []byte(cfg.HTTP.Secret.Reveal())
	if len(o.Secret) == 0 {
		o.Log.Warn("http.secret is not set: uploads cannot move between replicas or survive a restart")
		o.Secret = make([]byte, 32)
		_, _ = rand.Read(o.Secret) // never fails
	}
	return api.New(o)
}

// listen binds the addresses: the registry's first, then the debug server's.
func listen(cfg *config.Config, log *zap.Logger, handler, debug http.Handler) ([]*server.Server, error) {
	limits := cfg.Slipway.HTTP
	o := server.Options{
		Name: "main", Network: cfg.HTTP.Net, Addr: cfg.HTTP.Addr, Handler: handler, Log: log, Activation: true,
		TLS: tlsOptions(cfg.HTTP.TLS), DisableHTTP2: cfg.HTTP.HTTP2.Disabled, H2C: cfg.HTTP.H2C.Enabled,
		ReadHeaderTimeout: limits.ReadHeaderTimeout, IdleTimeout: limits.IdleTimeout,
		StallTimeout: limits.StallTimeout, MinRate: int64(limits.MinRate), MaxConns: limits.MaxConns,
	}
	main, err := server.Listen(o)
	if err != nil {
		return nil, server.ExplainListen(err, "http.addr", cfg.HTTP.Addr)
	}
	if cfg.HTTP.Debug.Addr == "" {
		return []*server.Server{main}, nil
	}
	second, err := server.Listen(server.Options{Name: "debug", Addr: cfg.HTTP.Debug.Addr, Handler: debug, Log: log})
	if err != nil {
		return nil, errors.Join(server.ExplainListen(err, "http.debug.addr", cfg.HTTP.Debug.Addr), main.Close())
	}
	return []*server.Server{main, second}, nil
}

func tlsOptions(t *config.TLS) *server.TLS {
	if t == nil {
		return nil
	}
	return &server.TLS{Certificate: t.Certificate, Key: t.Key, MinVersion: t.MinimumTLS, CipherSuites: t.CipherSuites, ClientCAs: t.ClientCAs, ClientAuth: t.ClientAuth}
}
