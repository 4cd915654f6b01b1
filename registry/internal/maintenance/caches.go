package maintenance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/maintenance/collect"
	"slipway/registry/internal/maintenance/schedule"
	"slipway/registry/internal/proxy"
	"slipway/shared/plural"
)

// evictionCheck is the time between two checks whether the caches need a search. Most checks
// only compare two numbers.
const evictionCheck = 5 * time.Second

// evict returns the job that evicts from the caches, and then frees the bytes. It runs on one
// replica at a time.
func (j *jobs) evict() func(context.Context) {
	search := j.oneReplica("evict", evictionCheck, j.searchCaches)
	return func(ctx context.Context) {
		if j.Cache.EvictionDue(int64(j.Config.Proxy.MaxSize), j.Replicas) {
			_ = search(ctx) // another replica does it
		}
		if !j.collectAt.IsZero() && !time.Now().Before(j.collectAt) {
			if _, failed := j.collectCaches(ctx); failed {
				j.collectLater()
			}
		}
	}
}

func (j *jobs) searchCaches(ctx context.Context) {
	age := j.Config.Storage.Maintenance.GC.Age
	o := proxy.EvictOptions{Store: j.Store, Pulls: j.Pulls, MaxSize: int64(j.Config.Proxy.MaxSize), Recent: age}
	done, err := j.Cache.Evict(ctx, o)
	if err != nil && ctx.Err() == nil {
		j.Log.Warn("eviction from the caches is not complete", zap.Error(err))
	}
	first := !j.searched // the process before may have stopped between an eviction and its collection
	j.searched = true
	if first || done.Evicted > 0 || done.Loose > 0 && j.collectAt.IsZero() {
		if young, failed := j.collectCaches(ctx); young || failed {
			j.collectLater()
		}
	}
}

// collectLater plans a collection for when everything that is young now is old enough.
func (j *jobs) collectLater() {
	j.collectAt = time.Now().Add(collect.MinAge(j.Config.Storage.Maintenance.GC.Age))
}

// collectCaches frees the bytes of what has left the caches. Without a limit, collections by
// schedule are soon enough, where there are any. It reports whether it kept bytes as too young.
func (j *jobs) collectCaches(ctx context.Context) (young, failed bool) {
	gc := j.Config.Storage.Maintenance.GC
	if ctx.Err() != nil || j.Config.Proxy.MaxSize == 0 && gc.Enabled {
		return false, false
	}
	j.collectAt = time.Time{}
	o := collect.Options{Store: j.Store, Log: j.Log, Age: gc.Age, Remote: j.Remote}
	report, err := collect.RunScheduled(ctx, o, j.collected) // it logs what fails
	if err == nil {
		j.succeeded(ctx, schedule.GarbageCollect)
	}
	return report.Kept.Recent.Blobs > 0, err != nil && !errors.Is(err, collect.ErrIncomplete)
}

// syncMirror fetches ahead of time what the configuration names.
func (j *jobs) syncMirror(ctx context.Context, _ run) error {
	report, err := j.Cache.Sync(ctx, SyncImages(&j.Config.Proxy.Sync), nil)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	j.Board.Note(schedule.MirrorSync, fmt.Sprintf("%s, %s fetched, %d failed", plural.Of(report.Images, "image"), plural.Of(report.Blobs, "blob"), report.Failed), report.Bytes)
	fields := []zap.Field{zap.Int("images", report.Images), zap.Int("blobs", report.Blobs), zap.Int64("bytes", report.Bytes), zap.Int("failed", report.Failed), zap.Error(err)}
	if err != nil {
		j.Log.Warn("mirror sync is not complete", fields...)
		return err
	}
	j.Log.Info("mirror sync finished", fields...)
	return nil
}
