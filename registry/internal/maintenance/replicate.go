package maintenance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/maintenance/schedule"
	"slipway/registry/internal/replication"
	"slipway/registry/internal/storage"
	"slipway/shared/plural"
)

const (
	replicateSoon  = 5 * time.Second        // after the start, and while another process copies
	replicateCheck = time.Minute            // for marks of other replicas, and for a comparison that is due
	replicateSlow  = 5 * time.Minute        // the same, and the longest backoff
	replicatePause = 300 * time.Millisecond // after a push, for what belongs to it
)

// replicate starts a job for each target that gets copies. They don't wait for each other.
func (j *jobs) replicate(ctx context.Context, group *sync.WaitGroup) {
	if j.Replication == nil {
		return
	}
	m := measured(j.Metrics, newReplicationMetrics)
	for _, t := range j.Replication.Targets {
		name := schedule.Replicate + " " + t.Name
		j.Board.Plan(name, 0)
		j.Board.Limit(name, describe(t))
		m.show(t.Name, &replication.Status{})
		r := &replicator{jobs: j, target: t, name: name, metrics: m}
		group.Go(func() { r.run(ctx) })
	}
}

// replicator is the job of one target.
type replicator struct {
	*jobs
	target  *replication.Target
	name    string
	metrics *replicationMetrics // nil = none
	failed  int                 // turns in succession
	down    bool                // the target was, in the last turn
}

func (r *replicator) run(ctx context.Context) {
	asked := r.Board.Asked(r.name)
	for wait := rand.N(replicateSoon); ; {
		woken, by := r.target.Woken(), ""
		if r.down {
			woken = nil // a push doesn't shorten the backoff
		}
		select {
		case <-time.After(wait):
		case <-woken:
			select {
			case <-time.After(replicatePause):
			case <-ctx.Done():
			}
		case by = <-asked:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return
		}
		if by == "" { // a request may have arrived during the pause
			select {
			case by = <-asked:
			default:
			}
		}
		wait = r.turn(ctx, by)
	}
}

// turn copies what is due, and returns the time until the next turn.
func (r *replicator) turn(ctx context.Context, by string) time.Duration {
	idle := replicateCheck
	if r.Remote {
		idle = replicateSlow
	}
	due, compare, err := r.Replication.Due(ctx, r.target)
	switch {
	case err != nil:
		r.Log.Warn("cannot read the state of a replication", zap.String("target", r.target.Name), zap.Error(err))
		if by != "" {
			r.Board.Refuse(r.name, "did not start: "+err.Error())
		}
		return idle
	case by == "" && !due:
		r.show(ctx)
		return idle
	}
	compare = compare || by != ""
	report, err := r.Replication.Turn(ctx, r.target, compare, r.Board.Begin(r.name, by))
	busy := errors.Is(err, storage.ErrBusy)
	r.down = report.Down
	switch {
	case ctx.Err() != nil:
	case busy:
		r.Board.Note(r.name, "another process does it", 0)
	default:
		r.Board.Note(r.name, did(&report, err), report.Bytes)
		r.logTurn(&report, err)
	}
	r.Board.End(r.name, err != nil && !busy && ctx.Err() == nil)
	if compare && !busy {
		r.write(run{by: by}, audit.Record{Event: "maintenance", Reference: r.name, Result: audit.ResultOf(err)})
	}
	r.show(ctx)
	r.metrics.count(r.target.Name, &report, err != nil && !busy)
	switch {
	case busy:
		return replicateSoon
	case err != nil:
		r.failed = min(r.failed+1, 10)
		return max(report.Wait, min(time.Second<<r.failed, replicateSlow))
	case report.Waiting > 0:
		r.failed = 0
		return replicatePause
	default:
		r.failed = 0
		return idle
	}
}

// describe says where the target is and when it gets copies.
func describe(t *replication.Target) string {
	text := "to " + t.URL.Redacted()
	if t.OnPush {
		text += " on push"
	}
	if t.Interval > 0 {
		text += ", compared every " + brief(t.Interval)
	}
	return text
}

// did describes a turn on a page.
func did(report *replication.Report, err error) string {
	text := plural.Of(report.Tags, "tag") + " and " + plural.Of(report.Manifests, "manifest") + " copied"
	if report.Deleted > 0 {
		text += ", " + plural.Of(report.Deleted, "tag") + " deleted"
	}
	if report.Waiting > 0 {
		text += fmt.Sprintf(", %d waiting", report.Waiting)
	}
	if err != nil {
		text += ": " + err.Error()
	}
	return text
}

func (r *replicator) logTurn(report *replication.Report, err error) {
	fields := []zap.Field{
		zap.String("target", r.target.Name), zap.Int("tags", report.Tags), zap.Int("manifests", report.Manifests), zap.Int("blobs", report.Blobs), zap.Int64("bytes", report.Bytes),
		zap.Int("deleted", report.Deleted), zap.Int("waiting", report.Waiting), zap.Error(err),
	}
	if err != nil {
		r.Log.Warn("replication is not complete", fields...)
	} else {
		r.Log.Info("replication finished", fields...)
	}
}

// show updates what pages and metrics show between turns, which another replica may have done.
func (r *replicator) show(ctx context.Context) {
	s, err := r.Replication.Status(ctx, r.target)
	if err != nil {
		return
	}
	limits := describe(r.target)
	if !s.Behind.IsZero() {
		limits += "; behind since " + s.Behind.UTC().Format("2006-01-02 15:04 UTC")
	}
	if s.Skipped != "" {
		limits += "; without " + s.Skipped
	}
	r.Board.Limit(r.name, limits)
	if r.target.Interval > 0 {
		r.Board.Plan(r.name, max(time.Second, time.Until(s.Compared.Add(r.target.Interval))))
	}
	r.metrics.show(r.target.Name, &s)
}

// replicationMetrics are by target.
type replicationMetrics struct {
	behind, waiting *prometheus.GaugeVec
	bytes, failures *prometheus.CounterVec
}

func newReplicationMetrics(registerer prometheus.Registerer) *replicationMetrics {
	const ns, sub = "registry", "replication"
	labels := []string{"target"}
	m := &replicationMetrics{
		behind:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: ns, Subsystem: sub, Name: "behind_timestamp_seconds", Help: "Since when the target lacks something; 0 if it has everything."}, labels),
		waiting:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: ns, Subsystem: sub, Name: "waiting", Help: "Changes that wait to be copied."}, labels),
		bytes:    prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: "copied_bytes_total", Help: "Bytes of blobs copied to the target."}, labels),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: "failures_total", Help: "Turns in which something could not be copied."}, labels),
	}
	registerer.MustRegister(m.behind, m.waiting, m.bytes, m.failures)
	return m
}

func (m *replicationMetrics) count(target string, report *replication.Report, failed bool) {
	if m == nil {
		return
	}
	m.bytes.WithLabelValues(target).Add(float64(report.Bytes))
	if failed {
		m.failures.WithLabelValues(target).Inc()
	}
}

func (m *replicationMetrics) show(target string, s *replication.Status) {
	if m == nil {
		return
	}
	behind := 0.0
	if !s.Behind.IsZero() {
		behind = float64(s.Behind.Unix())
	}
	m.behind.WithLabelValues(target).Set(behind)
	m.waiting.WithLabelValues(target).Set(float64(s.Waiting))
	m.bytes.WithLabelValues(target).Add(0)
	m.failures.WithLabelValues(target).Add(0)
}
