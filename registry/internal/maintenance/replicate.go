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
	replicateSoon  = 5 * time.Second        // after the start
	replicateCheck = time.Minute            // for marks of other replicas
	replicateSlow  = 5 * time.Minute        // the same for a store that is reached by a network, and the longest backoff
	replicatePause = 300 * time.Millisecond // between turns while something waits
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
			j.Board.Note(name, s.String(), s.Copied.Bytes)
			return err
		}))
		group.Go(func() { j.copyChanges(ctx, t, name, show) })
	}
}

// copyChanges copies what is marked for a target until ctx ends.
func (j *jobs) copyChanges(ctx context.Context, t *replication.Target, name string, show func(*replication.Status)) {
	idle, failures := replicateCheck, 0
	if j.Remote {
		idle = replicateSlow
	}
	woken, due := t.Woken, time.Now().Add(rand.N(replicateSoon))
	for wait := time.Duration(0); ; due = time.Now().Add(wait) {
		fresh := false
		select {
		case <-time.After(time.Until(due)):
		case <-woken:
			fresh = failures > 0
		case <-ctx.Done():
			return
		}
		s, err := j.Replication.Turn(ctx, t, fresh)
		woken = t.Woken
		switch {
		case err != nil:
			if !s.Takes {
				woken = nil // a push doesn't shorten the backoff of a target that is away
			}
			failures = min(failures+1, 10)
			wait = min(time.Second<<failures, replicateSlow)
			if !errors.Is(err, storage.ErrBusy) && ctx.Err() == nil {
				j.Log.Warn("replication is not complete", zap.String("target", t.Name), zap.Int("waiting", s.Waiting), zap.Error(err))
			}
		case fresh:
			wait = max(time.Until(due), replicatePause) // what has failed isn't due
		case s.Waiting > 0:
			failures, wait = 0, replicatePause
		default:
			failures, wait = 0, idle
		}
		j.Board.Limit(name, "to "+t.URL.Redacted()+": "+s.String())
		show(&s)
	}
}

// newReplicationMetrics returns a function that shows a status, without a registry nowhere.
func newReplicationMetrics(registry *prometheus.Registry) func(*replication.Status) {
	if registry == nil {
		registry = prometheus.NewRegistry()
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "registry", Subsystem: "replication", Name: name, Help: help}, []string{"target"})
		registry.MustRegister(g)
		return g
	}
	behind := gauge("behind_timestamp_seconds", "Since when the target lacks something; 0 if it has everything.")
	waiting := gauge("waiting", "Changes that wait to be copied.")
	failed := gauge("failed", "1 if the last turn could not copy something.")
	return func(s *replication.Status) {
		since, problem := 0.0, 0.0
		if !s.Behind.IsZero() {
			since = float64(s.Behind.Unix())
		}
		if s.Error != "" {
			problem = 1
		}
		behind.WithLabelValues(s.Name).Set(since)
		waiting.WithLabelValues(s.Name).Set(float64(s.Waiting))
		failed.WithLabelValues(s.Name).Set(problem)
	}
}
