package proxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway/registry/internal/proxy/upstream"
)

// Metrics counts what the caches do.
type Metrics struct {
	requests, hits, misses         *prometheus.CounterVec
	bytes, pushed                  *prometheus.CounterVec
	stales, errors, losses         *prometheus.CounterVec
	up, limit                      *prometheus.GaugeVec
	wait                           *prometheus.HistogramVec
	held                           prometheus.Gauge
	evicted, freed, failedSearches prometheus.Counter
}

// NewMetrics registers the metrics, those that distribution has under its names.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	const ns, sub = "registry", "proxy"
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help}, append([]string{"upstream"}, labels...))
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help})
	}
	gauges := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help}, []string{"upstream"})
	}
	m := &Metrics{
		requests: vec("requests_total", "Pulls of what the upstream may have.", "type"),
		hits:     vec("hits_total", "Pulls answered from the cache.", "type"),
		misses:   vec("misses_total", "Pulls of what the cache did not hold.", "type"),
		bytes:    vec("pulled_bytes_total", "Bytes received from the upstream.", "type"),
		pushed:   vec("pushed_bytes_total", "Bytes sent to clients.", "type"),
		stales:   vec("stale_total", "Answers from the cache that could not be checked because the upstream failed.", "reason"),
		errors:   vec("errors_total", "Requests to the upstream that failed.", "reason"),
		losses:   vec("not_stored_total", "Manifests and blobs that went to clients without being cached because the storage failed."),
		up:       gauges("up", "1 while the upstream answers, 0 while it fails."),
		limit:    gauges("limit_remaining", "Pulls left of the upstream's limit, as it reports them."),
		wait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: ns, Subsystem: sub, Name: "wait_seconds", Help: "Time until the upstream's answer began.", Buckets: prometheus.DefBuckets,
		}, []string{"upstream"}),
		held:           prometheus.NewGauge(prometheus.GaugeOpts{Namespace: ns, Subsystem: sub, Name: "held_bytes", Help: "Bytes of the caches at the last count, without those that other repositories need."}),
		evicted:        counter("evicted_manifests_total", "Manifests evicted from the caches."),
		freed:          counter("evicted_bytes_total", "Bytes freed by the eviction of manifests from the caches."),
		failedSearches: counter("eviction_failures_total", "Evictions that failed, or left more than the limit."),
	}
	registerer.MustRegister(m.requests, m.hits, m.misses, m.bytes, m.pushed, m.stales, m.errors, m.losses, m.up, m.limit, m.wait, m.held, m.evicted, m.freed, m.failedSearches)
	return m
}

// LimitOf returns the function for upstream.Options.Limit.
func (m *Metrics) LimitOf(name string) func(remaining int) {
	if m == nil {
		return nil
	}
	return func(remaining int) { m.limit.WithLabelValues(name).Set(float64(remaining)) }
}

// evictedSome counts one eviction.
func (m *Metrics) evictedSome(done Eviction, err error) {
	m.evicted.Add(float64(done.Evicted))
	m.freed.Add(float64(done.Freed))
	if err != nil {
		m.failedSearches.Inc()
	}
	if done.Held > 0 || err == nil {
		m.held.Set(float64(done.Held))
	}
}

// sourceMetrics counts for one upstream.
type sourceMetrics struct {
	*Metrics
	name string
}

// of makes the metrics of an upstream, with all series at 0 so that an alert sees the first
// event.
func (m *Metrics) of(name string) sourceMetrics {
	s := sourceMetrics{m, name}
	m.up.WithLabelValues(name).Set(1)
	m.losses.WithLabelValues(name)
	m.wait.WithLabelValues(name)
	for _, t := range []string{kind(false), kind(true)} {
		m.requests.WithLabelValues(name, t)
		m.pushed.WithLabelValues(name, t)
		m.hits.WithLabelValues(name, t)
		m.misses.WithLabelValues(name, t)
		m.bytes.WithLabelValues(name, t)
	}
	for _, r := range upstream.Reasons() {
		m.errors.WithLabelValues(name, string(r))
		m.stales.WithLabelValues(name, string(r))
	}
	return s
}

func kind(blob bool) string {
	if blob {
		return "blob"
	}
	return "manifest"
}

func (s sourceMetrics) request(blob bool) { s.requests.WithLabelValues(s.name, kind(blob)).Inc() }

func (s sourceMetrics) hit(blob bool)  { s.hits.WithLabelValues(s.name, kind(blob)).Inc() }
func (s sourceMetrics) miss(blob bool) { s.misses.WithLabelValues(s.name, kind(blob)).Inc() }
func (s sourceMetrics) notStored()     { s.losses.WithLabelValues(s.name).Inc() }

func (s sourceMetrics) pulled(blob bool, n int64) {
	s.bytes.WithLabelValues(s.name, kind(blob)).Add(float64(n))
}

func (s sourceMetrics) waited(d time.Duration) {
	s.wait.WithLabelValues(s.name).Observe(d.Seconds())
}

func (s sourceMetrics) stale(reason upstream.Reason) {
	s.stales.WithLabelValues(s.name, string(reason)).Inc()
}

// note counts the outcome of a request; "" is success.
func (s sourceMetrics) note(reason upstream.Reason) {
	switch reason {
	case "", upstream.NotFound:
		s.up.WithLabelValues(s.name).Set(1)
		return
	case upstream.Down, upstream.Slow, upstream.Fault, upstream.Limited, upstream.Login:
		s.up.WithLabelValues(s.name).Set(0)
	}
	s.errors.WithLabelValues(s.name, string(reason)).Inc()
}
