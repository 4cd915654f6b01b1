package verify

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Metrics counts what verifications find. Nil counts nothing.
type Metrics struct {
	runs  *prometheus.CounterVec
	found *prometheus.GaugeVec
	blobs prometheus.Gauge
	bytes prometheus.Gauge
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	const ns, sub = "registry", "verify"
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help})
	}
	m := &Metrics{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: "runs_total", Help: "Verifications that ended."}, []string{"result"}),
		found: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: ns, Subsystem: sub, Name: "findings", Help: "What the last whole verification found, quarantined or not.",
		}, []string{"kind"}),
		blobs: gauge("blobs", "Blobs read by the last whole verification."),
		bytes: gauge("bytes", "Bytes read by the last whole verification."),
	}
	registerer.MustRegister(m.runs, m.found, m.blobs, m.bytes)
	return m
}

func (m *Metrics) observe(r *Report, err error) {
	if m == nil {
		return
	}
	if err != nil {
		m.runs.WithLabelValues("failure").Inc()
		return
	}
	m.runs.WithLabelValues("success").Inc()
	for _, k := range kinds() {
		m.found.WithLabelValues(string(k)).Set(float64(r.Found[k]))
	}
	m.blobs.Set(float64(r.Blobs))
	m.bytes.Set(float64(r.Bytes))
}

// RunScheduled verifies once, as a schedule does: with a summary in the log. The next
// run resumes one that ctx interrupts.
func RunScheduled(ctx context.Context, o Options, metrics *Metrics) (*Report, error) {
	start := time.Now()
	report, err := Run(ctx, o)
	if ctx.Err() != nil {
		return report, ctx.Err()
	}
	metrics.observe(report, err)
	level := zapcore.InfoLevel
	if err != nil {
		level = zapcore.ErrorLevel
	}
	o.Log.Log(level, "verification finished", zap.Int("repositories", report.Repositories), zap.Int("manifests", report.Manifests),
		zap.Int("blobs", report.Blobs), zap.Int64("bytes", report.Bytes), zap.Int("open", report.Open()), zap.Int("quarantined", report.Quarantined),
		zap.Duration("duration", time.Since(start)), zap.Error(err))
	return report, err
}
