// Package app is the composition root of the registry: it opens what a configuration names and
// connects the parts. [New] makes the server, [Open] the environment of a command.
package app

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/registry/internal/api"
	"slipway/registry/internal/api/metrics"
	"slipway/registry/internal/audit"
	"slipway/registry/internal/config"
	"slipway/registry/internal/maintenance"
	"slipway/registry/internal/maintenance/retention"
	"slipway/registry/internal/maintenance/schedule"
	"slipway/registry/internal/notify"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pageindex"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/replication"
	"slipway/registry/internal/signature"
	"slipway/shared/build"
	"slipway/shared/health"
	"slipway/shared/logging"
	"slipway/shared/server"
	"slipway/shared/servicemetrics"
	"slipway/shared/systemd"
	"slipway/shared/tracing"
)

// Options complete the configuration of an App.
type Options struct {
	Build build.Info
	// Load loads the configuration again for Reload.
	Load func() (*config.Config, error)
	// Warnings of loading the configuration are logged once the log is open.
	Warnings []string
	// Stdout takes the access log, Stderr the log, as with CNCF distribution.
	Stdout, Stderr io.Writer
}

// App is a registry that listens.
type App struct {
	*Environment
	options Options
	metrics *prometheus.Registry

	level       zap.AtomicLevel
	lines       *logging.Buffer // lines of the access log
	accessLog   *logging.AccessLog
	audit       *audit.Log // nil = none
	events      *notify.Notifier
	gate        *gate
	checks      *health.Monitor
	failed      trouble
	servers     []*server.Server
	index       *pageindex.Index        // nil = none
	board       schedule.Board          // state of the scheduled jobs
	replication *replication.Replicator // nil = none
	background  []func(context.Context)
	closers     []func() error
	reloader    reloader
}

// New opens everything that cfg names and binds its addresses. The caller must close the App.
func New(ctx context.Context, cfg *config.Config, o Options) (*App, error) {
	a := &App{Environment: &Environment{Config: cfg, Build: o.Build}, options: o, level: zap.NewAtomicLevel()}
	steps := []func(context.Context) error{
		a.openLog, a.openTracing, a.check, a.openStorage, a.openRegistry, a.joinServers, a.openEvents, a.openAudit, a.openAuth, a.startChecks, a.openServers,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, a.Close())
		}
	}
	return a, nil
}

// Close closes what New has opened, in the opposite order.
func (a *App) Close() error {
	var errs []error
	for _, end := range slices.Backward(a.closers) {
		errs = append(errs, end())
	}
	a.closers = nil
	return errors.Join(errs...)
}

func (a *App) onClose(end func() error) { a.closers = append(a.closers, end) }

// Run serves until ctx ends and requests in progress are answered.
func (a *App) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	working, stop := context.WithCancel(ctx)
	defer stop()
	maintenance.Start(working, &group, maintenance.Options{
		Config: a.Config, Store: a.Store, Replicas: a.Store.replicas, Remote: a.Store.Remote, Cache: a.Cache, Registry: a.Registry,
		Pulls: a.Pulls, Log: a.Log, Metrics: a.metrics, Audit: a.audit, Board: &a.board, Replication: a.replication,
	})
	for _, work := range a.background {
		group.Go(func() { work(working) })
	}
	a.Log.Info("registry started", zap.String("version", a.Build.Version), zap.String("storage", a.Store.driver), zap.Stringer("address", a.servers[0].Addr()))
	defer systemd.Ready(ctx, a.Log)()
	err := server.Run(ctx, a.Config.HTTP.DrainTimeout, a.servers...)
	a.Log.Info("registry stopped")
	return err
}

// Reload applies certificates, passwords, access rules, workloads and the log level as they are
// now. It must not run concurrently with itself or with Close.
func (a *App) Reload() { a.reloader.reload() }

func (a *App) openLog(context.Context) (err error) {
	cfg := a.Config.Log
	lines := logging.NewBuffer(a.options.Stderr)
	a.onClose(lines.Close)
	a.lines = logging.NewBuffer(a.options.Stdout)
	a.onClose(a.lines.Close)
	a.Log, err = logging.New(lines, logging.Config{
		Level: cfg.Level, Dynamic: &a.level, Format: logging.Format(cfg.Formatter), Fields: cfg.Fields, ReportCaller: cfg.ReportCaller,
	})
	if err != nil {
		return err
	}
	for _, w := range a.options.Warnings {
		a.Log.Warn(w)
	}
	if !cfg.AccessLog.Disabled {
		a.accessLog = logging.NewAccessLog(a.lines)
	}
	return nil
}

func (a *App) openTracing(ctx context.Context) error {
	stop, err := tracing.Start(ctx, a.options.Build, a.Log)
	if err == nil {
		a.onClose(func() error { stop(); return nil })
	}
	return err
}

// check refuses files and a storage that can't be used before anything is opened.
func (a *App) check(context.Context) error {
	if err := errors.Join(CheckFiles(a.Config), checkStorage(a.Config)); err != nil {
		return err
	}
	for _, w := range ruleWarnings(a.Config) {
		a.Log.Warn(w)
	}
	warnMountedReadOnly(a.Config, a.Log)
	RestrictSecrets(a.Config, a.Log)
	LimitMemory()
	return nil
}

func (a *App) openStorage(ctx context.Context) (err error) {
	a.metrics = newMetrics(a.Config, a.Build)
	if a.Store, err = OpenBackend(ctx, a.Config, a.Log, a.Build); err != nil {
		return err
	}
	a.failed = newTrouble()
	a.Store.instrument(a.Log, a.metrics, a.failed.note)
	a.onClose(a.Store.Close)
	return a.Store.full
}

// openRegistry opens the registry with what it uses beside the storage, and the caches around it.
func (a *App) openRegistry(context.Context) (err error) {
	o := registryOptions(a.Config, a.Store, a.Log)
	a.openPulls(&o)
	a.openIndex()
	o.Changed = func(name oci.Name, d oci.Digest, tags []oci.Tag) {
		if a.index != nil {
			a.index.Touch(name)
		}
		a.replication.Changed(name, d, tags)
	}
	if o.Signer, err = blobURLs(a.Config, a.Store.signer, a.Log, &a.background); err != nil {
		return err
	}
	if a.quotas = openQuotas(a.Config, a.Store, a.Log); a.quotas != nil {
		a.onClose(func() error { a.quotas.Close(); return nil })
		a.background = append(a.background, a.quotas.Count)
		o.Quota = a.quotas
	}
	if a.metrics != nil {
		o.Looked = countLooks(a.metrics)
	}
	a.Registry = registry.New(o)
	if err := a.openCaches(o.Pulled, a.metrics); err != nil {
		return err
	}
	if a.Cache != nil {
		a.onClose(func() error { a.Cache.Close(); return nil })
	}
	if !a.Config.Storage.Maintenance.ReadOnly.Enabled {
		a.replication, err = a.Replication()
	}
	return err
}

func (a *App) joinServers(ctx context.Context) error {
	leave, err := a.Join(ctx)
	if err == nil {
		a.onClose(func() error { leave(); return nil })
	}
	return err
}

func (a *App) openEvents(context.Context) (err error) {
	if a.events, err = openNotifications(a.Config, a.Build, a.Log, a.metrics); err == nil {
		a.onClose(a.events.Close)
	}
	return err
}

func (a *App) openAudit(context.Context) (err error) {
	if a.audit, err = openAudit(a.Config.Audit, a.lines, false, a.Log); err != nil {
		return err
	}
	a.onClose(a.audit.Close)
	watchAudit(a.metrics, a.audit)
	return nil
}

func (a *App) openAuth(ctx context.Context) (err error) {
	if a.gate, err = openAuth(ctx, a.Config, a.Store, a.Cache, a.audit, a.Log); err != nil {
		return err
	}
	a.background = append(a.background, a.gate.watchers...)
	return nil
}

func (a *App) startChecks(context.Context) error {
	a.checks = health.Start(a.Log, healthChecks(a.Config, a.Store.Remote, a.failed, a.Registry, a.Cache)...)
	a.onClose(func() error { a.checks.Close(); return nil })
	watchHealth(a.metrics, a.checks)
	return nil
}

func (a *App) openServers(context.Context) error {
	o := api.Options{Audit: a.audit, Registry: a.Registry, Log: a.Log, Access: a.accessLog, Metrics: measured(a.metrics, metrics.New), Notify: a.events, Health: a.checks}
	if a.Cache != nil {
		o.Proxy = a.Cache
	}
	o.Secret = uploadSecret(a.Config, a.Log)
	rules, err := signatureRules(&a.Config.Policy)
	if err != nil {
		return err
	}
	o.Signatures = signature.New(rules)
	o.Index, o.Board = a.index, &a.board
	if rules := maintenance.RetentionRules(a.Config.Storage.Maintenance.Retention.Rules); len(rules) > 0 {
		o.Plan = retention.OneAtATime(retention.Options{Store: a.Store, Registry: a.Registry, Rules: rules, Pulls: a.Pulls})
	}
	o = a.gate.serve(o)
	handler, err := newAPI(a.Config, o)
	if err != nil {
		return err
	}
	if err := a.openPages(handler, o); err != nil {
		return err
	}
	if a.servers, err = listen(a.Config, a.Store, a.Log, handler, newDebugHandler(a.Config, a.checks, a.metrics)); err != nil {
		return err
	}
	if a.metrics != nil {
		a.metrics.MustRegister(servicemetrics.Expiry("registry", a.servers[0].CertificateExpiry))
	}
	a.reloader = reloader{
		cfg: *a.Config, load: a.options.Load, level: &a.level, gate: a.gate, auditLog: a.audit, policy: o.Signatures, servers: a.servers, log: a.Log,
	}
	return nil
}
