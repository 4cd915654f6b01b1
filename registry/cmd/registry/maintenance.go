package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/collect"
	"slipway/registry/internal/config"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/proxy"
	"slipway/registry/internal/pulls"
	"slipway/registry/internal/quota"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/retention"
	"slipway/registry/internal/schedule"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/upload"
	"slipway/registry/internal/verify"
	"slipway/shared/logging"
)

// environment is what a maintenance command works in: the storage, beside the server
// or without one.
type environment struct {
	cfg    *config.Config
	log    *zap.Logger
	store  *backend
	cache  *proxy.Cache  // nil = no repository is a cache
	quotas *quota.Quotas // nil = there are none
	rules  *registry.Registry
	lines  *logging.Buffer
}

// openEnvironment opens the storage that the configuration names, for a command that
// changes something or only reads. The log goes to stderr.
func openEnvironment(cmd *cobra.Command, file string, changes bool) (*environment, error) {
	cfg, report, err := config.Load(file, os.Environ())
	if err != nil {
		return nil, err
	}
	if fs := cfg.Storage.Filesystem; fs != nil { // it may be misspelled
		if _, err := os.Stat(fs.RootDirectory); errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("storage.filesystem.rootdirectory: %s does not exist: correct the path, mount the volume there, or start the registry once, which makes it", fs.RootDirectory)
		} else if err != nil {
			return nil, fmt.Errorf("storage.filesystem.rootdirectory: %w", err)
		}
	}
	e := &environment{cfg: cfg, lines: logging.NewBuffer(cmd.ErrOrStderr())}
	e.log, err = logging.New(e.lines, logging.Config{
		Level: cfg.Log.Level, Format: logging.Format(cfg.Log.Formatter), Fields: cfg.Log.Fields, ReportCaller: cfg.Log.ReportCaller,
	})
	if err != nil {
		return nil, err
	}
	for _, warning := range report.Warnings {
		e.log.Warn(warning)
	}
	quiet := e.log
	if e.log.Level() == zap.InfoLevel { // which object store was opened is for those who serve it
		quiet = e.log.WithOptions(zap.IncreaseLevel(zap.WarnLevel))
	}
	if e.store, err = openBackend(cmd.Context(), cfg, quiet); err != nil {
		return nil, err
	}
	if changes || e.log.Level() == zap.DebugLevel { // who only reads reports what cannot be read
		e.store.instrument(e.log, nil)
	}
	if changes {
		err = e.store.takeOver(cmd.Context(), e.log)
	} else {
		e.store.warnMoved(e.log)
	}
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	if e.cache, err = openProxy(cfg, e.log, nil); err != nil {
		return nil, errors.Join(err, e.close())
	}
	options := registryOptions(cfg, e.store, e.cache, e.log)
	if e.quotas = openQuotas(cfg, e.store, e.log); e.quotas != nil {
		options.Quota = e.quotas
	}
	e.rules = registry.New(options)
	return e, nil
}

// caches selects the repositories that are a cache; nil if none is.
func (e *environment) caches() func(oci.Name) bool { return cachesOf(e.cache) }

// close closes the storage and writes what is left of the log.
func (e *environment) close() error {
	if e.cache != nil {
		e.cache.Close()
	}
	if e.quotas != nil {
		e.quotas.Close()
	}
	return errors.Join(e.store.Close(), e.lines.Close())
}

// notNegative refuses a duration below 0, which a flag may hold.
func notNegative(flag string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%s must not be negative", flag)
	}
	return nil
}

// writeJSON writes a report for machines.
func writeJSON(out io.Writer, report any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(report)
}

// maintenance is the work on the storage that goes on while it is served.
type maintenance struct {
	cfg     *config.Config
	store   *backend
	cache   *proxy.Cache // nil = no repository is a cache
	rules   *registry.Registry
	pulls   *pulls.File
	log     *zap.Logger
	metrics *prometheus.Registry // nil = nobody asks
	acts    *audit.Log           // nil = none

	collected *collect.Metrics // of all collections
	freed     time.Time        // when the rest of what has left the caches can be freed; zero = nothing was looked at yet
}

// start starts what the configuration turns on. Jobs that delete run one at a time;
// a verification, which may take days, runs beside them.
func (m *maintenance) start(ctx context.Context, group *sync.WaitGroup) {
	work := &m.cfg.Storage.Maintenance
	if work.ReadOnly.Enabled {
		return
	}
	slot := schedule.NewSlot()
	if p := work.UploadPurging; p.Enabled {
		group.Go(func() {
			schedule.Every(ctx, p.Interval, slot, m.oneReplica("purge", p.Interval, m.audited("uploads purge", p.DryRun, m.purge)))
		})
	}
	if work.Retention.Enabled {
		metrics := measured(m.metrics, retention.NewMetrics)
		group.Go(func() {
			schedule.Every(ctx, work.Retention.Interval, slot, m.oneReplica("retention", work.Retention.Interval, m.audited("retention apply", work.Retention.DryRun, m.retain(metrics))))
		})
	}
	if work.GC.Enabled || m.cache != nil {
		m.collected = measured(m.metrics, collect.NewMetrics)
	}
	if work.GC.Enabled {
		group.Go(func() {
			schedule.Every(ctx, work.GC.Interval, slot, m.oneReplica("gc", work.GC.Interval, m.audited("garbage-collect", work.GC.DryRun, m.collect)))
		})
	}
	if m.cache != nil {
		group.Go(func() { schedule.Every(ctx, m.cfg.Proxy.Interval, slot, m.evict(m.cfg.Proxy.Interval)) })
	}
	if every := m.cfg.Proxy.Sync.Interval; m.cache != nil && every > 0 {
		group.Go(func() {
			schedule.Every(ctx, every, nil, m.oneReplica("mirror-sync", every, m.audited("mirror sync", false, m.syncMirror)))
		})
	}
	if work.Verify.Enabled {
		metrics := measured(m.metrics, verify.NewMetrics)
		group.Go(func() {
			schedule.Every(ctx, work.Verify.Interval, nil, m.oneReplica("verify", work.Verify.Interval, m.audited("verify", !work.Verify.Repair, m.verify(metrics))))
		})
	}
}

// audited is the job, which writes into the audit log that it has run, unless it changes
// nothing.
func (m *maintenance) audited(name string, changesNothing bool, job func(context.Context) error) func(context.Context) {
	return func(ctx context.Context) {
		err := job(ctx)
		if !changesNothing && !errors.Is(err, storage.ErrBusy) { // another process does it
			m.write(audit.Record{Event: "maintenance", Reference: name, Result: audit.ResultOf(err)})
		}
	}
}

// write writes what a job has done.
func (m *maintenance) write(act audit.Record) {
	act.Time, act.Who, act.From = time.Now(), "maintenance schedule", operator()
	m.acts.Write(act)
}

func (m *maintenance) purge(ctx context.Context) error {
	p := m.cfg.Storage.Maintenance.UploadPurging
	report, err := m.rules.PurgeUploads(ctx, upload.PurgeOptions{Age: p.Age, DryRun: p.DryRun})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.log.Info("upload purge finished", zap.Int("purged", len(report.Purged)), zap.Int64("bytes", report.Bytes),
		zap.Int("errors", report.Errors), zap.Bool("dryrun", p.DryRun), zap.Error(err))
	return err
}

func (m *maintenance) retain(metrics *retention.Metrics) func(context.Context) error {
	r := m.cfg.Storage.Maintenance.Retention
	o := retention.Options{Store: m.store, Registry: m.rules, Rules: retentionRules(r.Rules), Pulls: m.pulls}
	o.Deleted = func(v *retention.Verdict) { m.write(deletedTag(v)) }
	return func(ctx context.Context) error { return retention.Run(ctx, o, r.DryRun, m.log, metrics) }
}

func (m *maintenance) collect(ctx context.Context) error {
	gc := m.cfg.Storage.Maintenance.GC
	o := collect.Options{Store: m.store, Coordinator: m.store.coordinator, Log: m.log, Wait: m.store.collectWait, Age: gc.Age, DeleteUntagged: gc.DeleteUntagged, DryRun: gc.DryRun, Remote: m.store.root == ""}
	o.KeepUntagged = cachesOf(m.cache)
	return collect.RunScheduled(ctx, o, m.collected)
}

func (m *maintenance) verify(metrics *verify.Metrics) func(context.Context) error {
	o := verifyOptions(m.cfg)
	o.Store, o.Log, o.Partial = m.store, m.log, cachesOf(m.cache)
	return func(ctx context.Context) error { return verify.RunScheduled(ctx, o, metrics) }
}

// recordPulls starts a recorder of pulls if a rule or a cache asks for them; else it is nil.
func recordPulls(cfg *config.Maintenance, caches bool, file *pulls.File, log *zap.Logger) *pulls.Recorder {
	if cfg.ReadOnly.Enabled {
		return nil
	}
	if caches {
		return pulls.Start(file, log)
	}
	for _, rule := range cfg.Retention.Rules {
		if rule.PulledWithin > 0 {
			return pulls.Start(file, log)
		}
	}
	return nil
}
