// Package maintenance runs the scheduled jobs of a server on its storage.
package maintenance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/bytesize"
	"slipway/registry/internal/config"
	"slipway/registry/internal/lastpull"
	"slipway/registry/internal/maintenance/collect"
	"slipway/registry/internal/maintenance/retention"
	"slipway/registry/internal/maintenance/schedule"
	"slipway/registry/internal/maintenance/verify"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/proxy"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/replication"
	"slipway/registry/internal/storage"
	"slipway/shared/plural"
)

// Options name what the jobs work with.
type Options struct {
	Config      *config.Config
	Store       storage.Store
	Replicas    bool // several processes may serve the store
	Remote      bool // the store is reached by a network
	Registry    *registry.Registry
	Cache       *proxy.Registry // nil = no repository is a cache
	Pulls       *lastpull.File
	Log         *zap.Logger
	Metrics     *prometheus.Registry    // nil = none
	Audit       *audit.Log              // nil = none
	Board       *schedule.Board         // shows the jobs and takes requests for one; nil = no board
	Replication *replication.Replicator // nil = nothing is copied elsewhere
}

// jobs are the scheduled jobs of one server.
type jobs struct {
	Options
	slot      schedule.Slot // held by jobs that delete
	collected *collect.Metrics
	successes sync.Map  // job → *success, of those that are shown; jobs run while others are added
	searched  bool      // the caches were searched since the start
	collectAt time.Time // when to collect once more after an eviction; zero = not planned
}

// Start starts the jobs that the configuration turns on and those that can be requested on the
// board; they end with ctx. Jobs that delete run one at a time. A verification, which may take days, runs in parallel.
func Start(ctx context.Context, group *sync.WaitGroup, o Options) {
	work := &o.Config.Storage.Maintenance
	if work.ReadOnly.Enabled {
		return
	}
	if o.Board == nil {
		o.Board = &schedule.Board{}
	}
	j := &jobs{Options: o, slot: schedule.NewSlot()}
	if p := work.UploadPurging; p.Enabled {
		j.start(ctx, group, schedule.UploadPurge, "purge", p.Interval, j.slot, j.audited(schedule.UploadPurge, p.DryRun, j.purge))
	}
	if r := work.Retention; r.Enabled || len(r.Rules) > 0 && !r.DryRun {
		var metrics *retention.Metrics
		if r.Enabled {
			metrics = measured(o.Metrics, retention.NewMetrics)
			j.show(schedule.RetentionApply, "retention", "When the rules were last applied without a failure.")
		}
		j.start(ctx, group, schedule.RetentionApply, "retention", scheduled(r.Enabled, r.Interval), j.slot, j.audited(schedule.RetentionApply, r.DryRun, j.retain(metrics)))
	}
	gc := work.GC
	if gc.Enabled || o.Cache != nil {
		j.collected = measured(o.Metrics, collect.NewMetrics)
		j.show(schedule.GarbageCollect, "gc", "When the last collection ended that skipped nothing.")
	}
	j.Board.Limit(schedule.GarbageCollect, collectLimits(&gc))
	j.start(ctx, group, schedule.GarbageCollect, "gc", scheduled(gc.Enabled, gc.Interval), j.slot, j.audited(schedule.GarbageCollect, gc.DryRun, j.collect))
	if o.Cache != nil {
		evict := j.evict()
		group.Go(func() {
			schedule.Every(ctx, evictionCheck, j.slot, nil, func(ctx context.Context, _ string) { evict(ctx) })
		})
	}
	if interval := o.Config.Proxy.Sync.Interval; o.Cache != nil && interval > 0 {
		j.start(ctx, group, schedule.MirrorSync, "mirror-sync", interval, nil, j.audited(schedule.MirrorSync, false, j.syncMirror))
	}
	j.replicate(ctx, group)
	v := work.Verify
	var verified *verify.Metrics
	if v.Enabled {
		verified = measured(o.Metrics, verify.NewMetrics)
		j.show(schedule.Verify, "verify", "When a whole verification last ended, whatever it found.")
	}
	j.start(ctx, group, schedule.Verify, "verify", scheduled(v.Enabled, v.Interval), nil, j.audited(schedule.Verify, !v.Repair, j.verify(verified)))
}

// scheduled is the interval of a job that runs by a schedule if that is on.
func scheduled(on bool, interval time.Duration) time.Duration {
	if !on {
		return schedule.OnlyAsked
	}
	return interval
}

// start starts a job that the board shows, on one replica at a time.
func (j *jobs) start(ctx context.Context, group *sync.WaitGroup, name, lock string, interval time.Duration, slot schedule.Slot, job func(context.Context, string)) {
	j.Board.Plan(name, max(0, min(interval, schedule.Soon)))
	group.Go(func() {
		j.recall(ctx, name)
		schedule.Every(ctx, interval, slot, j.Board.Asked(name), func(ctx context.Context, by string) {
			every := interval
			if by != "" {
				every = 0
			}
			err := j.oneReplica(lock, every, func(ctx context.Context) { job(ctx, by) })(ctx)
			if err != nil && by != "" {
				j.Board.Refuse(name, "did not start: "+err.Error())
			}
			if by == "" {
				j.recall(ctx, name)
			}
			j.Board.Plan(name, max(0, interval))
		})
	})
}

// measured returns metrics, or nil without a registry for them.
func measured[M any](metrics *prometheus.Registry, make func(prometheus.Registerer) *M) *M {
	if metrics == nil {
		return nil
	}
	return make(metrics)
}

// run is one run of a job.
type run struct {
	by   string // who asked for it, "" = the schedule
	done *schedule.Progress
}

// audited returns the job with its runs on the board, and a line in the audit log after each,
// unless it changes nothing.
func (j *jobs) audited(name string, changesNothing bool, job func(context.Context, run) error) func(context.Context, string) {
	return func(ctx context.Context, by string) {
		r := run{by, j.Board.Begin(name, by)}
		err := job(ctx, r)
		if err == nil {
			j.succeeded(ctx, name)
		}
		j.Board.End(name, err != nil && !errors.Is(err, storage.ErrBusy))
		if !changesNothing && !errors.Is(err, storage.ErrBusy) { // another process does it
			j.write(r, audit.Record{Event: "maintenance", Reference: name, Result: audit.ResultOf(err)})
		}
	}
}

// write writes a line on what a job has done.
func (j *jobs) write(r run, act audit.Record) {
	act.Time, act.Who, act.From = time.Now(), cmp.Or(r.by, "maintenance schedule"), audit.Operator()
	j.Audit.Write(act)
}

func (j *jobs) purge(ctx context.Context, _ run) error {
	p := j.Config.Storage.Maintenance.UploadPurging
	report, err := j.Registry.PurgeUploads(ctx, registry.PurgeOptions{Age: p.Age, DryRun: p.DryRun})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	j.Board.Note(schedule.UploadPurge, plural.Of(len(report.Purged), "upload")+" "+dry(p.DryRun)+"removed", report.Bytes)
	j.Log.Info("upload purge finished", zap.Int("purged", len(report.Purged)), zap.Int64("bytes", report.Bytes),
		zap.Int("errors", report.Errors), zap.Bool("dryrun", p.DryRun), zap.Error(err))
	return err
}

func (j *jobs) retain(metrics *retention.Metrics) func(context.Context, run) error {
	r := j.Config.Storage.Maintenance.Retention
	o := retention.Options{Store: j.Store, Registry: j.Registry, Rules: RetentionRules(r.Rules), Pulls: j.Pulls}
	return func(ctx context.Context, by run) error {
		deleted := 0
		o := o
		o.Deleted = func(v *retention.Verdict) {
			deleted++
			j.write(by, DeletedTag(v))
		}
		o.Only = by.done.Of
		err := retention.Run(ctx, o, r.DryRun, j.Log, metrics)
		did := plural.Of(deleted, "tag") + " deleted"
		if errors.Is(err, retention.ErrChanged) {
			did += ": " + err.Error()
		}
		if r.DryRun {
			did = "dry run: the log has what would be deleted"
		}
		j.Board.Note(schedule.RetentionApply, did, 0)
		return err
	}
}

func (j *jobs) collect(ctx context.Context, r run) error {
	gc := j.Config.Storage.Maintenance.GC
	o := collect.Options{Store: j.Store, Log: j.Log, Age: gc.Age, DeleteUntagged: gc.DeleteUntagged, DryRun: gc.DryRun, Remote: j.Remote}
	o.KeepUntagged, o.Progress = j.caches(), r.done
	report, err := collect.RunScheduled(ctx, o, j.collected)
	if errors.Is(err, storage.ErrBusy) {
		j.Board.Note(schedule.GarbageCollect, "another process collects", 0)
	} else {
		j.Board.Note(schedule.GarbageCollect, fmt.Sprintf("%s and %s %sfreed, %s", plural.Of(report.Manifests.Freed, "manifest"), plural.Of(report.Blobs.Freed, "blob"),
			dry(gc.DryRun), plural.Of(len(report.Problems), "problem")), report.Bytes.Freed)
		j.Board.Explain(schedule.GarbageCollect, keptReasons(&report.Kept, &gc))
		if report.Bytes.Freed > 0 && !gc.DryRun {
			j.Registry.CountQuotas(ctx)
		}
	}
	return err
}

// collectLimits describes the settings that keep a collection from freeing more.
func collectLimits(gc *config.GC) string {
	limits := "keeps "
	if !gc.DeleteUntagged {
		limits += "untagged manifests (deleteuntagged is off) and "
	}
	limits += "what was pushed in the last " + brief(gc.Age) + " (age)"
	if gc.DryRun {
		limits += "; frees nothing (dryrun)"
	}
	return limits
}

// brief formats a duration without units that are zero: 1h instead of 1h0m0s.
func brief(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// keptReasons describes why a collection kept bytes that no tag needs, "" if there were none.
func keptReasons(kept *collect.Reasons, gc *config.GC) string {
	var all []string
	add := func(r collect.Reason, why string) {
		if r.Blobs > 0 {
			all = append(all, bytesize.Text(r.Bytes)+" "+why)
		}
	}
	if !gc.DeleteUntagged {
		add(kept.Untagged, "of untagged manifests (deleteuntagged is off)")
	}
	add(kept.Recent, "newer than "+brief(gc.Age)+" (age)")
	add(kept.Restorable, "deleted but restorable")
	add(kept.Unreadable, "in unreadable repositories")
	return strings.Join(all, ", ")
}

func (j *jobs) verify(metrics *verify.Metrics) func(context.Context, run) error {
	o := VerifyOptions(j.Config)
	o.Store, o.Log, o.Partial = j.Store, j.Log, j.caches()
	return func(ctx context.Context, r run) error {
		o := o
		o.Progress = r.done
		report, err := verify.RunScheduled(ctx, o, metrics)
		j.Board.Note(schedule.Verify, fmt.Sprintf("%s read, %s open", plural.Of(report.Blobs, "blob"), plural.Of(report.Open(), "finding")), report.Bytes)
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
