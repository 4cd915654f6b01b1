package retention

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Metrics counts what retention does. Nil counts nothing.
type Metrics struct {
	runs    *prometheus.CounterVec
	deleted prometheus.Counter
	bytes   prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	const ns, sub = "registry", "retention"
	m := &Metrics{
		runs:    prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: "runs_total", Help: "Applications of the rules."}, []string{"result"}),
		deleted: prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: "deleted_tags_total", Help: "Tags deleted by the rules."}),
		bytes:   prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: "released_bytes_total", Help: "Bytes that nothing needs any more, for garbage collection to free."}),
	}
	registerer.MustRegister(m.runs, m.deleted, m.bytes)
	return m
}

// observe counts an application. A dry run releases nothing.
func (m *Metrics) observe(p *Plan, r Result, err error) {
	if m == nil {
		return
	}
	m.deleted.Add(float64(r.Deleted))
	if err != nil {
		m.runs.WithLabelValues("failure").Inc()
		return
	}
	if r.Deleted > 0 {
		m.bytes.Add(float64(p.Bytes))
	}
	m.runs.WithLabelValues("success").Inc()
}

// ErrChanged means that nothing was deleted, because the plan isn't the one of [Options.Only] any more.
var ErrChanged = errors.New("the plan has changed since it was shown")

// Run applies the rules once, as a schedule does: what goes is logged, and with
// dryRun only that. ErrChanged.
func Run(ctx context.Context, o Options, dryRun bool, log *zap.Logger, metrics *Metrics) error {
	start := time.Now()
	plan, err := Make(ctx, o)
	if err == nil && o.Only != "" && plan.ID() != o.Only {
		log.Info("retention deletes nothing: the plan has changed since it was shown", zap.Int("planned", plan.Deleted))
		return ErrChanged
	}
	var result Result
	switch {
	case err != nil:
		plan = &Plan{}
	case dryRun:
		for _, v := range plan.Verdicts {
			if v.Delete {
				log.Info("retention would delete a tag", zap.String("repository", string(v.Repository)), zap.String("tag", string(v.Tag)),
					zap.String("digest", string(v.Digest)), zap.String("rule", RuleKey(v.Rule)), zap.String("why", v.Why))
			}
		}
		err = plan.begin(ctx, o.Pulls)
	default:
		result, err = plan.Apply(ctx, o, log)
	}
	if ctx.Err() != nil {
		log.Info("retention was interrupted", zap.Int("deleted", result.Deleted), zap.Int("planned", plan.Deleted))
		return ctx.Err()
	}
	metrics.observe(plan, result, err)
	for _, problem := range plan.Problems {
		log.Warn("retention skips a repository", zap.String("problem", problem))
	}
	level := zapcore.InfoLevel
	if err != nil {
		level = zapcore.ErrorLevel
	}
	log.Log(level, "retention finished", zap.Int("deleted", result.Deleted), zap.Int("planned", plan.Deleted), zap.Int("kept", plan.Kept),
		zap.Int("changed", result.Changed), zap.Int("failed", result.Failed), zap.Int64("bytes", plan.Bytes), zap.Int("problems", len(plan.Problems)),
		zap.Bool("dryrun", dryRun), zap.Duration("duration", time.Since(start)), zap.Error(err))
	return err
}
