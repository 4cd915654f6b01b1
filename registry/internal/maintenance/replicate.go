package maintenance

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/registry/internal/maintenance/schedule"
	"slipway/registry/internal/replication"
	"slipway/registry/internal/storage"
)

const (
	replicateCheck = time.Minute     // for marks of other replicas
	replicateSlow  = 5 * time.Minute // the longest backoff
)

// replicate starts a job that compares everything and a goroutine that copies what changes, for each target that gets copies. Targets
// don't wait for each other.
func (j *jobs) replicate(ctx context.Context, group *sync.WaitGroup) {
	if j.Replication == nil {
		return
	}
	show := newReplicationMetrics(j.Metrics)
	for _, t := range j.Replication.Targets {
		name := schedule.Replicate + " " + t.Name
		j.start(ctx, group, name, "replication-"+t.Name, scheduled(t.Interval > 0, t.Interval), nil, j.audited(name, false, func(ctx context.Context, _ run) error {
			s, err := j.Replication.Sync(ctx, t)
			j.Board.Note(name, s.String(), 0)
			return err
		}))
		group.Go(func() { j.copyChanges(ctx, t, name, show) })
	}
}

// copyChanges copies what is marked for a target until ctx ends.
func (j *jobs) copyChanges(ctx context.Context, t *replication.Target, name string, show func(*replication.Status)) {
	failures := 0
	for due := time.Now().Add(rand.N(replicateCheck)); ; {
		fresh := false
		select {
		case <-time.After(time.Until(due)):
		case <-t.Woken:
			fresh = failures > 0 // what has failed isn't due
		case <-ctx.Done():
			return
		}
		s, err := j.Replication.Turn(ctx, t, fresh)
		if err != nil && !errors.Is(err, storage.ErrBusy) && ctx.Err() == nil {
			j.Log.Warn("replication is not complete", zap.String("target", t.Name), zap.Int("waiting", s.Waiting), zap.Error(err))
		}
		switch {
		case fresh:
		case err != nil:
			failures = min(failures+1, 10)
			due = time.Now().Add(min(time.Second<<failures, replicateSlow))
		case s.Waiting > 0:
			failures, due = 0, time.Now().Add(replication.Pause)
		default:
			failures, due = 0, time.Now().Add(replicateCheck)
		}
		j.Board.Limit(name, "to "+t.URL.Redacted()+": "+s.String())
		show(&s)
	}
}

// newReplicationMetrics returns a function that shows a status, without a registry nowhere.
func newReplicationMetrics(registry *prometheus.Registry) func(*replication.Status) {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "registry", Subsystem: "replication", Name: name, Help: help}, []string{"target"})
	}
	behind := gauge("behind_timestamp_seconds", "Since when the target lacks something; 0 if it has everything.")
	waiting := gauge("waiting", "Changes that wait to be copied.")
	failed := gauge("failed", "1 if the last turn could not copy something.")
	if registry != nil {
		registry.MustRegister(behind, waiting, failed)
	}
	return func(s *replication.Status) {
		behind.WithLabelValues(s.Name).Set(float64(max(0, s.Behind.Unix()))) // the zero time is before 1970
		waiting.WithLabelValues(s.Name).Set(float64(s.Waiting))
		failed.WithLabelValues(s.Name).Set(float64(min(1, len(s.Error))))
	}
}
