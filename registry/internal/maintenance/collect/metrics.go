package collect

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"slipway/registry/internal/storage"
)

// Metrics counts what scheduled runs do.
type Metrics struct {
	runs     *prometheus.CounterVec
	seconds  prometheus.Histogram
	freed    *prometheus.CounterVec
	bytes    *prometheus.GaugeVec
	problems prometheus.Gauge
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	metric := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "registry", Subsystem: "gc", Name: name, Help: help}
	}
	m := &Metrics{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts(metric("runs_total", "Garbage collections, by outcome.")), []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "registry", Subsystem: "gc", Name: "duration_seconds", Help: "Time that a garbage collection takes.", Buckets: prometheus.ExponentialBuckets(0.01, 4, 10),
		}),
		freed:    prometheus.NewCounterVec(prometheus.CounterOpts(metric("freed_total", "What was freed: manifests, blobs, bytes.")), []string{"what"}),
		bytes:    prometheus.NewGaugeVec(prometheus.GaugeOpts(metric("kept_bytes", "Bytes that the last collection kept, by reason.")), []string{"reason"}),
		problems: prometheus.NewGauge(prometheus.GaugeOpts(metric("problems", "Manifests and tags that the last collection could not read; their repositories are skipped."))),
	}
	registerer.MustRegister(m.runs, m.seconds, m.freed, m.bytes, m.problems)
	return m
}

func (m *Metrics) observe(p *Report, err error) {
	if m == nil {
		return
	}
	switch {
	case errors.Is(err, storage.ErrBusy):
		m.runs.WithLabelValues("busy").Inc()
		return
	case errors.Is(err, ErrIncomplete):
		m.runs.WithLabelValues("incomplete").Inc()
	case err != nil:
		m.runs.WithLabelValues("failed").Inc()
		return
	default:
		m.runs.WithLabelValues("done").Inc()
	}
	m.seconds.Observe(p.Duration.Seconds())
	m.problems.Set(float64(len(p.Problems)))
	m.bytes.WithLabelValues("in_use").Set(float64(p.Kept.InUse.Bytes))
	m.bytes.WithLabelValues("restorable").Set(float64(p.Kept.Restorable.Bytes))
	m.bytes.WithLabelValues("recent").Set(float64(p.Kept.Recent.Bytes))
	m.bytes.WithLabelValues("unreadable").Set(float64(p.Kept.Unreadable.Bytes))
	if p.DryRun {
		return
	}
	m.freed.WithLabelValues("manifests").Add(float64(p.Manifests.Freed))
	m.freed.WithLabelValues("blobs").Add(float64(p.Blobs.Freed))
	m.freed.WithLabelValues("bytes").Add(float64(p.Bytes.Freed))
}
