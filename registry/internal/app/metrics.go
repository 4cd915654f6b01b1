package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"slipway/registry/internal/config"
	"slipway/shared/build"
	"slipway/shared/health"
	"slipway/shared/servicemetrics"
)

// newMetrics returns nil if metrics are not served.
func newMetrics(cfg *config.Config, b build.Info) *prometheus.Registry {
	if d := cfg.HTTP.Debug; d.Addr == "" || !d.Prometheus.Enabled {
		return nil
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "registry_build_info", Help: "What the binary was built from; always 1.",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "goversion": b.Go},
	}, func() float64 { return 1 }))
	if s := cfg.Storage.Filesystem; s != nil {
		metrics.MustRegister(servicemetrics.Volume("registry_storage", s.RootDirectory))
	}
	metrics.MustRegister(intervals(cfg.Storage.Maintenance))
	return metrics
}

// intervals shows how often scheduled work runs, so that alerts know when it is overdue.
func intervals(m config.Maintenance) prometheus.Collector {
	all := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "registry_maintenance_interval_seconds", Help: "Time between two runs of a scheduled task. A task that is off is left out.",
	}, []string{"task"})
	for _, task := range []struct {
		name     string
		enabled  bool
		interval time.Duration
	}{
		{"gc", m.GC.Enabled, m.GC.Interval},
		{"retention", m.Retention.Enabled, m.Retention.Interval},
		{"verify", m.Verify.Enabled, m.Verify.Interval},
	} {
		if task.enabled && !m.ReadOnly.Enabled {
			all.WithLabelValues(task.name).Set(task.interval.Seconds())
		}
	}
	return all
}

// measured returns metrics, or nil if they are not served.
func measured[M any](metrics *prometheus.Registry, make func(prometheus.Registerer) *M) *M {
	if metrics == nil {
		return nil
	}
	return make(metrics)
}

// countLooks counts cache lookups under the metric names of CNCF distribution 3 and 2.8.
func countLooks(metrics prometheus.Registerer) func(hit bool) {
	requests := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "registry_storage_cache_requests_total", Help: "Lookups of a manifest in memory.",
	})
	hits := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "registry_storage_cache_hits_total", Help: "Lookups of a manifest that memory had.",
	})
	former := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "registry_storage_cache_total", Help: "The same lookups, as distribution 2.8 counts them.",
	}, []string{"type"})
	metrics.MustRegister(requests, hits, former)
	looks, found, missed := former.WithLabelValues("Request"), former.WithLabelValues("Hit"), former.WithLabelValues("Miss")
	return func(hit bool) {
		requests.Inc()
		looks.Inc()
		if hit {
			hits.Inc()
			found.Inc()
		} else {
			missed.Inc()
		}
	}
}

// watchHealth shows how the checks stand.
func watchHealth(metrics *prometheus.Registry, checks *health.Monitor) {
	if metrics == nil {
		return
	}
	ready := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "registry_health_ready", Help: "1 while requests are answered, 0 while a check that is not advisory fails.",
	}, func() float64 { return number(checks.Ready()) })
	metrics.MustRegister(ready, &healthStatus{checks, prometheus.NewDesc("registry_health_check", "1 while the check succeeds, 0 while it fails.", []string{"check"}, nil)})
}

// healthStatus has a series for each check of the configuration.
type healthStatus struct {
	checks *health.Monitor
	status *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (h *healthStatus) Describe(out chan<- *prometheus.Desc) { out <- h.status }

// Collect implements prometheus.Collector.
func (h *healthStatus) Collect(out chan<- prometheus.Metric) {
	for name, ok := range h.checks.Status() {
		out <- prometheus.MustNewConstMetric(h.status, prometheus.GaugeValue, number(ok), name)
	}
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
