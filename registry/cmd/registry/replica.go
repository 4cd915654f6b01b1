package main

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
// there are no replicas it is the job itself.
func (m *maintenance) oneReplica(name string, interval time.Duration, job func(context.Context)) func(context.Context) {
	if !m.store.replicas {
		return job
	}
	key := layout.Own + "/schedule/" + name
	return func(ctx context.Context) {
		lock, err := m.store.coordinator.Lock(ctx, "schedule-"+name)
		if err != nil {
			if !errors.Is(err, storage.ErrBusy) && ctx.Err() == nil {
				m.log.Warn("cannot find out whether another replica does it", zap.String("job", name), zap.Error(err))
			}
			return
		}
		defer lock.Release()
		last, err := m.store.Stat(ctx, key)
		switch {
		case err == nil && time.Since(last.Modified) < interval*9/10: // the replicas do not wake at the same moment
			return
		case err != nil && !errors.Is(err, storage.ErrNotExist):
			m.log.Warn("cannot find out when another replica did it", zap.String("job", name), zap.Error(err))
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		done := make(chan struct{})
		defer close(done)
		go func() {
			select {
			case <-lock.Lost():
				cancel()
			case <-done:
			}
		}()
		job(ctx)
		if ctx.Err() != nil {
			return // whoever is next goes on
		}
		if err := m.store.Apply(ctx, nil, storage.Stage{{Key: key}}); err != nil {
			m.log.Warn("cannot record that a job has run; another replica repeats it", zap.String("job", name), zap.Error(err))
		}
	}
}
