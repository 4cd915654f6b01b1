package maintenance

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/storage"
)

// oneReplica returns a job that runs on one replica at a time, and no more often than every
// interval on all of them together. When the one that runs it dies, another takes over. Where
// there are no replicas it is the job itself. The error, which is logged unless it is ErrBusy, is
// why it did not run; there is none if another replica ran it within the interval.
func (j *jobs) oneReplica(name string, interval time.Duration, job func(context.Context)) func(context.Context) error {
	if !j.Replicas {
		return func(ctx context.Context) error { job(ctx); return nil }
	}
	key := layout.Own + "/schedule/" + name
	return func(ctx context.Context) error {
		unlock, err := j.Store.Lock(ctx, "schedule-"+name, false)
		if err != nil {
			if !errors.Is(err, storage.ErrBusy) && ctx.Err() == nil {
				j.Log.Warn("cannot find out whether another replica does it", zap.String("job", name), zap.Error(err))
			}
			return err
		}
		defer unlock()
		last, err := j.Store.Stat(ctx, key)
		switch {
		case err == nil && time.Since(last.Modified) < interval*9/10: // the replicas do not wake at the same moment
			return nil
		case err != nil && !errors.Is(err, storage.ErrNotExist):
			j.Log.Warn("cannot find out when another replica did it", zap.String("job", name), zap.Error(err))
			return err
		}
		job(ctx)
		if ctx.Err() != nil {
			return nil // the next replica continues
		}
		if err := j.Store.Apply(ctx, nil, storage.Stage{{Key: key, Content: []byte{}}}); err != nil {
			j.Log.Warn("cannot record that a job has run; another replica repeats it", zap.String("job", name), zap.Error(err))
		}
		return nil
	}
}
