package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/crypto/acme/autocert"

	"slipway/relay/internal/api"
	"slipway/relay/internal/config"
	"slipway/relay/internal/store"
	"slipway/shared/command"
	"slipway/shared/logging"
	"slipway/shared/server"
	"slipway/shared/servicemetrics"
	"slipway/shared/systemd"
	"slipway/shared/tracing"
)

func newServeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve [FILE]",
		Short: "Run the relay",
		Long: "Runs the relay with the configuration FILE, or that of --config, and the RELAY_ variables, which take precedence. It also starts while the homeserver is down: accepted messages wait. " +
			"SIGTERM or SIGINT stops it after the requests and deliveries under way; the rest is delivered after the next start. " +
			"SIGHUP reloads certificates, passwords, limits and the log level.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := command.ConfigArgument(cmd, args)
			if err != nil {
				return err
			}
			cfg, report, err := config.Load(file, os.Environ())
			if err != nil {
				return err
			}
			load := func() (*config.Config, error) {
				cfg, _, err := config.Load(file, os.Environ())
				return cfg, err
			}
			return serve(cmd.Context(), cfg, load, report.Warnings, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	addConfigFlag(cmd)
	return cmd
}

// serve runs the relay until ctx is done, then stops intake, delivery and the database, in that order.
func serve(ctx context.Context, cfg *config.Config, load func() (*config.Config, error), warnings []string, stdout, stderr io.Writer) (err error) {
	hangups, stopSignals := server.Hangups()
	defer stopSignals()
	tuneCollector()
	level := zap.NewAtomicLevel()
	lines, accessLines := logging.NewBuffer(stderr), logging.NewBuffer(stdout)
	defer func() { err = errors.Join(err, lines.Close(), accessLines.Close()) }()
	log, err := logging.New(lines, logging.Config{Level: cfg.Logging.Level, Dynamic: &level, Format: logging.Format(cfg.Logging.Format), Fields: map[string]any{"service": "relay"}})
	if err != nil {
		return err
	}
	for _, w := range warnings {
		log.Warn(w)
	}
	stopTracing, err := tracing.Start(ctx, built(), log)
	if err != nil {
		return err
	}
	defer stopTracing()
	var access *logging.AccessLog
	if cfg.Logging.AccessLog {
		access = logging.NewAccessLog(accessLines)
	}
	p, err := assembleSoon(ctx, cfg, log, access)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	servers, err := listen(cfg, log, p)
	if err != nil {
		return err
	}
	stopSMTP, err := listenSMTP(ctx, cfg, log, p, servers[0])
	if err != nil {
		return errors.Join(err, closeAll(servers))
	}
	stop := p.start(ctx)
	defer stop()
	r := &reloader{cfg: *cfg, load: load, level: level, parts: p, servers: servers, log: log}
	defer server.OnHangup(ctx, hangups, r.reload)()
	log.Info("relay started", zap.String("version", built().Version), zap.String("homeserver", cfg.Matrix.Homeserver), zap.Stringer("address", servers[0].Addr()))
	defer systemd.Ready(ctx, log)()
	err = server.Run(ctx, cfg.HTTP.DrainTimeout, servers...)
	err = errors.Join(err, stopSMTP())
	log.Info("relay stopped", zap.Error(err))
	return err
}

const (
	awaitDatabase = 30 * time.Second
	tryDatabase   = time.Second
)

// assembleSoon is assemble, but retries for half a minute while PostgreSQL isn't up yet, and as long as the disk is full: a server in
// the place of the relay's says so meanwhile.
func assembleSoon(ctx context.Context, cfg *config.Config, log *zap.Logger, access *logging.AccessLog) (*parts, error) {
	stop := func() {}
	defer func() { stop() }()
	saying := false
	for end := time.Now().Add(awaitDatabase); ; {
		p, err := assemble(ctx, cfg, log, access, "")
		full := store.IsFull(err)
		if err == nil || !full && (!store.IsAway(err) || time.Now().After(end)) || ctx.Err() != nil {
			return p, err
		}
		switch {
		case !full:
			log.Warn("the database does not answer; trying again", zap.Error(err))
		case !saying:
			log.Error("the disk of the database is full; trying again until there is room", zap.Error(err))
			saying = true
			if stop, err = serveUnready(ctx, cfg, log, "The disk of the database is full: the relay starts when there is room."); err != nil {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(tryDatabase):
		}
	}
}

// tuneCollector sets GOGC to 300. The live heap is a few MiB, so that costs little memory and saves
// an eighth of the CPU of a message. GOGC in the environment is left alone.
func tuneCollector() {
	const percent = 300
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// start starts syncing and delivering in the background. stop ends both and blocks until they have ended.
func (p *parts) start(ctx context.Context) (stop func()) {
	base := context.WithoutCancel(ctx)
	delivering, stopDelivering := context.WithCancel(base)
	var deliver sync.WaitGroup
	deliver.Go(func() { _ = p.service.Run(delivering) }) // ends without error
	return func() {
		stopDelivering()
		deliver.Wait()
	}
}

// A request is small: one that comes in drips is no sender's.
const (
	stallTimeout = 15 * time.Second
	minRate      = 512 // bytes a second
)

func closeAll(servers []*server.Server) (err error) {
	for _, s := range servers {
		err = errors.Join(err, s.Close())
	}
	return err
}

// serveUnready answers at the main address that the relay cannot start yet, until stop is called.
func serveUnready(ctx context.Context, cfg *config.Config, log *zap.Logger, reason string) (stop func(), err error) {
	s, err := listenMain(cfg, log, api.Unready(reason), nil)
	if err != nil {
		return func() {}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Run(ctx, 0, s) })
	return func() {
		cancel()
		serving.Wait()
	}, nil
}

// listenMain binds the main address. If kept is nil, the ACME authority isn't used and the server speaks plain HTTP.
func listenMain(cfg *config.Config, log *zap.Logger, handler http.Handler, kept autocert.Cache) (*server.Server, error) {
	o := server.Options{Name: "main", Addr: cfg.HTTP.ListenAddress, Handler: handler, Log: log, StallTimeout: stallTimeout, MinRate: minRate}
	switch a := cfg.HTTP.ACME; {
	case cfg.HTTP.CertFile != "":
		o.TLS = &server.TLS{Certificate: cfg.HTTP.CertFile, Key: cfg.HTTP.KeyFile}
	case a.Enabled() && kept != nil:
		o.TLS = &server.TLS{ACME: &server.ACME{Hosts: a.Hosts, Email: a.Email, Directory: a.DirectoryURL, Cache: kept}}
	}
	s, err := server.Listen(o)
	if err != nil {
		return nil, server.ExplainListen(err, "http.listenaddress", o.Addr)
	}
	return s, nil
}

// listen binds the main address and, if it is separate, the metrics address.
func listen(cfg *config.Config, log *zap.Logger, p *parts) ([]*server.Server, error) {
	main, err := listenMain(cfg, log, p.api, certificates{p.store})
	if err != nil {
		return nil, err
	}
	p.register.MustRegister(servicemetrics.Expiry("relay", main.CertificateExpiry))
	if !cfg.Metrics.Enabled || cfg.Metrics.ListenAddress == "" {
		return []*server.Server{main}, nil
	}
	metrics := http.NewServeMux()
	metrics.Handle("GET /metrics", p.metrics)
	second, err := server.Listen(server.Options{Name: "metrics", Addr: cfg.Metrics.ListenAddress, Handler: metrics, Log: log, MaxConns: 100})
	if err != nil {
		return nil, errors.Join(server.ExplainListen(err, "metrics.listenaddress", cfg.Metrics.ListenAddress), main.Close())
	}
	return []*server.Server{main, second}, nil
}
