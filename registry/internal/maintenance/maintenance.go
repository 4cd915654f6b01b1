// Package maintenance runs the scheduled jobs of a server on its storage.
package maintenance

import (
	"context"
	"errors"
	"fmt"
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
	"slipway/shared/plural"
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
	Board    *schedule.Board      // shows what the jobs do; nil = nobody looks
}

// Names of jobs, those of the commands that do the same.
const (
	purging    = "uploads purge"
	retaining  = "retention apply"
	collecting = "garbage-collect"
	syncing    = "mirror sync"
	verifying  = "verify"
)

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
	// listed is every for a job that the board shows.
	listed := func(name string, interval time.Duration, slot schedule.Slot, job func(context.Context)) {
		o.Board.Plan(name, min(interval, schedule.Soon))
		every(interval, slot, func(ctx context.Context) {
			job(ctx)
			o.Board.Plan(name, interval)
		})
	}
	if p := work.UploadPurging; p.Enabled {
		listed(purging, p.Interval, j.slot, j.oneReplica("purge", p.Interval, j.audited(purging, p.DryRun, j.purge)))
	}
	if r := work.Retention; r.Enabled {
		listed(retaining, r.Interval, j.slot, j.oneReplica("retention", r.Interval, j.audited(retaining, r.DryRun, j.retain(measured(o.Metrics, retention.NewMetrics)))))
	}
	if work.GC.Enabled || o.Cache != nil {
		j.collected = measured(o.Metrics, collect.NewMetrics)
	}
	if gc := work.GC; gc.Enabled {
		listed(collecting, gc.Interval, j.slot, j.oneReplica("gc", gc.Interval, j.audited(collecting, gc.DryRun, j.collect)))
	}
	if o.Cache != nil {
		every(evictionCheck, j.slot, j.evict())
	}
	if interval := o.Config.Proxy.Sync.Interval; o.Cache != nil && interval > 0 {
		listed(syncing, interval, nil, j.oneReplica("mirror-sync", interval, j.audited(syncing, false, j.syncMirror)))
	}
	if v := work.Verify; v.Enabled {
		listed(verifying, v.Interval, nil, j.oneReplica("verify", v.Interval, j.audited(verifying, !v.Repair, j.verify(measured(o.Metrics, verify.NewMetrics)))))
	}
}

// measured returns metrics, or nil without a registry for them.
func measured[M any](metrics *prometheus.Registry, make func(prometheus.Registerer) *M) *M {
	if metrics == nil {
		return nil
	}
	return make(metrics)
}

// audited returns the job with its runs on the board, and a line in the audit log after each,
// unless it changes nothing.
func (j *jobs) audited(name string, changesNothing bool, job func(context.Context) error) func(context.Context) {
	return func(ctx context.Context) {
		j.Board.Begin(name)
		err := job(ctx)
		j.Board.End(name, err != nil && !errors.Is(err, storage.ErrBusy))
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
	j.Board.Note(purging, plural.Of(len(report.Purged), "upload")+" "+dry(p.DryRun)+"removed", report.Bytes)
	j.Log.Info("upload purge finished", zap.Int("purged", len(report.Purged)), zap.Int64("bytes", report.Bytes),
		zap.Int("errors", report.Errors), zap.Bool("dryrun", p.DryRun), zap.Error(err))
	return err
}

func (j *jobs) retain(metrics *retention.Metrics) func(context.Context) error {
	r := j.Config.Storage.Maintenance.Retention
	o := retention.Options{Store: j.Store, Registry: j.Rules, Rules: RetentionRules(r.Rules), Pulls: j.Pulls}
	deleted := 0
	o.Deleted = func(v *retention.Verdict) {
		deleted++
		j.write(DeletedTag(v))
	}
	return func(ctx context.Context) error {
		deleted = 0
		err := retention.Run(ctx, o, r.DryRun, j.Log, metrics)
		did := plural.Of(deleted, "tag") + " deleted"
		if r.DryRun {
			did = "dry run: the log has what would be deleted"
		}
		j.Board.Note(retaining, did, 0)
		return err
	}
}

func (j *jobs) collect(ctx context.Context) error {
	gc := j.Config.Storage.Maintenance.GC
	o := collect.Options{Store: j.Store, Log: j.Log, Age: gc.Age, DeleteUntagged: gc.DeleteUntagged, DryRun: gc.DryRun, Remote: j.Remote}
	o.KeepUntagged = j.caches()
	report, err := collect.RunScheduled(ctx, o, j.collected)
	if errors.Is(err, storage.ErrBusy) {
		j.Board.Note(collecting, "another process collects", 0)
	} else {
		j.Board.Note(collecting, fmt.Sprintf("%s and %s %sfreed, %s", plural.Of(report.Manifests.Freed, "manifest"), plural.Of(report.Blobs.Freed, "blob"),
			dry(gc.DryRun), plural.Of(len(report.Problems), "problem")), report.Bytes.Freed)
	}
	return err
}

func (j *jobs) verify(metrics *verify.Metrics) func(context.Context) error {
	o := VerifyOptions(j.Config)
	o.Store, o.Log, o.Partial = j.Store, j.Log, j.caches()
	return func(ctx context.Context) error {
		report, err := verify.RunScheduled(ctx, o, metrics)
		j.Board.Note(verifying, fmt.Sprintf("%s read, %s open", plural.Of(report.Blobs, "blob"), plural.Of(report.Open(), "finding")), report.Bytes)
		return err
	}
}

// dry begins what a dry run says of what it did not do.
func dry(run bool) string {
	if run {
		return "would be "
	}
	return ""
}

// caches selects the repositories that are caches; nil if none is.
func (j *jobs) caches() func(oci.Name) bool {
	if j.Cache == nil {
		return nil
	}
	return j.Cache.Caches
}
