// Package maintenance runs the scheduled jobs of a server on its storage.
package maintenance

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/config"
	"slipway/registry/internal/maintenance/collect"
	"slipway/registry/internal/maintenance/pulls"
	"slipway/registry/internal/maintenance/retention"
	"slipway/registry/internal/maintenance/schedule"
	"slipway/registry/internal/maintenance/verify"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/proxy"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/registry/upload"
	"slipway/registry/internal/storage"
)

// Options name what the jobs work with.
type Options struct {
	Config   *config.Config
	Store    storage.Store
	Replicas bool // several processes may serve the store
	Remote   bool // the store is reached by a network
	Rules    *registry.Registry
	Cache    *proxy.Registry // nil = no repository is a cache
	Pulls    *pulls.File
	Log      *zap.Logger
	Metrics  *prometheus.Registry // nil = none
	Audit    *audit.Log           // nil = none
}

// jobs are the scheduled jobs of one server.
type jobs struct {
	Options
	slot      schedule.Slot // held by jobs that delete
	collected *collect.Metrics
	searched  bool      // the caches were searched since the start
	collectAt time.Time // when to collect once more after an eviction; zero = not planned
}

// Start starts the jobs that the configuration turns on; they end with ctx. Jobs that delete run
// one at a time. A verification, which may take days, runs beside them.
func Start(ctx context.Context, group *sync.WaitGroup, o Options) {
	work := &o.Config.Storage.Maintenance
	if work.ReadOnly.Enabled {
		return
	}
	j := &jobs{Options: o, slot: schedule.NewSlot()}
	every := func(interval time.Duration, slot schedule.Slot, job func(context.Context)) {
		group.Go(func() { schedule.Every(ctx, interval, slot, job) })
	}
	if p := work.UploadPurging; p.Enabled {
		every(p.Interval, j.slot, j.oneReplica("purge", p.Interval, j.audited("uploads purge", p.DryRun, j.purge)))
	}
	if r := work.Retention; r.Enabled {
		every(r.Interval, j.slot, j.oneReplica("retention", r.Interval, j.audited("retention apply", r.DryRun, j.retain(measured(o.Metrics, retention.NewMetrics)))))
	}
	if work.GC.Enabled || o.Cache != nil {
		j.collected = measured(o.Metrics, collect.NewMetrics)
	}
	if gc := work.GC; gc.Enabled {
		every(gc.Interval, j.slot, j.oneReplica("gc", gc.Interval, j.audited("garbage-collect", gc.DryRun, j.collect)))
	}
	if o.Cache != nil {
		every(evictionCheck, j.slot, j.evict())
	}
	if interval := o.Config.Proxy.Sync.Interval; o.Cache != nil && interval > 0 {
		every(interval, nil, j.oneReplica("mirror-sync", interval, j.audited("mirror sync", false, j.syncMirror)))
	}
	if v := work.Verify; v.Enabled {
		every(v.Interval, nil, j.oneReplica("verify", v.Interval, j.audited("verify", !v.Repair, j.verify(measured(o.Metrics, verify.NewMetrics)))))
	}
}

// measured returns metrics, or nil without a registry for them.
func measured[M any](metrics *prometheus.Registry, make func(prometheus.Registerer) *M) *M {
	if metrics == nil {
		return nil
	}
	return make(metrics)
}

// audited returns the job with a line in the audit log after each run, unless it changes
// nothing.
func (j *jobs) audited(name string, changesNothing bool, job func(context.Context) error) func(context.Context) {
	return func(ctx context.Context) {
		err := job(ctx)
		if !changesNothing && !errors.Is(err, storage.ErrBusy) { // another process does it
			j.write(audit.Record{Event: "maintenance", Reference: name, Result: audit.ResultOf(err)})
		}
	}
}

// write writes a line on what a job has done.
func (j *jobs) write(act audit.Record) {
	act.Time, act.Who, act.From = time.Now(), "maintenance schedule", audit.Operator()
	j.Audit.Write(act)
}

func (j *jobs) purge(ctx context.Context) error {
	p := j.Config.Storage.Maintenance.UploadPurging
	report, err := j.Rules.PurgeUploads(ctx, upload.PurgeOptions{Age: p.Age, DryRun: p.DryRun})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	j.Log.Info("upload purge finished", zap.Int("purged", len(report.Purged)), zap.Int64("bytes", report.Bytes),
		zap.Int("errors", report.Errors), zap.Bool("dryrun", p.DryRun), zap.Error(err))
	return err
}

func (j *jobs) retain(metrics *retention.Metrics) func(context.Context) error {
	r := j.Config.Storage.Maintenance.Retention
	o := retention.Options{Store: j.Store, Registry: j.Rules, Rules: RetentionRules(r.Rules), Pulls: j.Pulls}
	o.Deleted = func(v *retention.Verdict) { j.write(DeletedTag(v)) }
	return func(ctx context.Context) error { return retention.Run(ctx, o, r.DryRun, j.Log, metrics) }
}

func (j *jobs) collect(ctx context.Context) error {
	gc := j.Config.Storage.Maintenance.GC
	o := collect.Options{Store: j.Store, Log: j.Log, Age: gc.Age, DeleteUntagged: gc.DeleteUntagged, DryRun: gc.DryRun, Remote: j.Remote}
	o.KeepUntagged = j.caches()
	_, err := collect.RunScheduled(ctx, o, j.collected)
	return err
}

func (j *jobs) verify(metrics *verify.Metrics) func(context.Context) error {
	o := VerifyOptions(j.Config)
	o.Store, o.Log, o.Partial = j.Store, j.Log, j.caches()
	return func(ctx context.Context) error { return verify.RunScheduled(ctx, o, metrics) }
}

// caches selects the repositories that are caches; nil if none is.
func (j *jobs) caches() func(oci.Name) bool {
	if j.Cache == nil {
		return nil
	}
	return j.Cache.Caches
}
