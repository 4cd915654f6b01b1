package collect

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"slipway/registry/internal/storage"
)

// RunScheduled collects once, as a schedule in a server does: paced, with a summary
// in the log. Where another process collects, it leaves that to it. metrics may be
// nil.
func RunScheduled(ctx context.Context, o Options, metrics *Metrics) (Report, error) {
	o.Paced = true
	report, err := Run(ctx, o)
	if ctx.Err() != nil {
		return report, ctx.Err()
	}
	metrics.observe(&report, err)
	report.log(o.Log, err)
	return report, err
}

// log writes the summary of a run.
func (p *Report) log(log *zap.Logger, err error) {
	if errors.Is(err, storage.ErrBusy) {
		log.Info("garbage collection skipped: another process is collecting")
		return
	}
	for _, problem := range p.Problems {
		log.Error("garbage collection skipped a repository",
			zap.String("repository", string(problem.Repository)), zap.String("manifest", string(problem.Manifest)), zap.String("reason", problem.Error))
	}
	fields := []zap.Field{
		zap.Duration("duration", p.Duration), zap.Bool("dryrun", p.DryRun), zap.Int("repositories", p.Repositories),
		zap.Int64("manifests.found", p.Manifests.Found), zap.Int64("manifests.freed", p.Manifests.Freed),
		zap.Int64("blobs.found", p.Blobs.Found), zap.Int64("blobs.freed", p.Blobs.Freed),
		zap.Int64("bytes.found", p.Bytes.Found), zap.Int64("bytes.freed", p.Bytes.Freed),
		zap.Int64("bytes.restorable", p.Kept.Restorable.Bytes), zap.Int64("bytes.recent", p.Kept.Recent.Bytes), zap.Int64("bytes.unreadable", p.Kept.Unreadable.Bytes),
		zap.Int("problems", len(p.Problems)),
	}
	if err != nil && !errors.Is(err, ErrIncomplete) {
		log.Error("garbage collection failed", append(fields, zap.Error(err))...)
		return
	}
	log.Info("garbage collection finished", fields...)
}
