package proxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway/registry/internal/upstream"
)

// Metrics counts what the caches do. Nil counts nothing.
type Metrics struct {
	hits, misses, bytes   *prometheus.CounterVec
	stales, errors, loses *prometheus.CounterVec
	up, limit             *prometheus.GaugeVec
	wait                  *prometheus.HistogramVec
	held                  prometheus.Gauge
	evicted, freed        prometheus.Counter
	evictionFailures      prometheus.Counter
}

// NewMetrics registers the metrics, those that distribution has under its names.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	const ns, sub = "registry", "proxy"
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help}, append([]string{"upstream"}, labels...))
	}
	m := &Metrics{
		hits:   counter("hits_total", "Pulls that were answered out of the cache.", "type"),
		misses: counter("misses_total", "Pulls of what the cache did not hold.", "type"),
		bytes:  counter("pulled_bytes_total", "Bytes that came from the upstream.", "type"),
		stales: counter("stale_total", "Answers out of the cache that could not be checked because the upstream failed.", "reason"),
		errors: counter("errors_total", "Requests that the upstream did not answer as it should.", "reason"),
		loses:  counter("not_stored_total", "What went to clients without being cached because the storage failed."),
		up: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: ns, Subsystem: sub, Name: "up", Help: "1 while the upstream answers, 0 while it fails.",
		}, []string{"upstream"}),
		limit: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: ns, Subsystem: sub, Name: "limit_remaining", Help: "Pulls that are left of the upstream's limit, as it says.",
		}, []string{"upstream"}),
		wait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: ns, Subsystem: sub, Name: "wait_seconds", Help: "Time until the upstream's answer began.", Buckets: prometheus.DefBuckets,
		}, []string{"upstream"}),
		held:    prometheus.NewGauge(prometheus.GaugeOpts{Namespace: ns, Subsystem: sub, Name: "held_bytes", Help: "Bytes of the caches when they were last counted, without those that other repositories need."}),
		evicted: prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: "evicted_manifests_total", Help: "Manifests evicted from the caches."}),
		freed:   prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: "evicted_bytes_total", Help: "Bytes freed by the eviction of manifests from the caches."}),

		evictionFailures: prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: "eviction_failures_total", Help: "Searches for what may leave the caches that failed, or left more than the limit."}),
	}
	registerer.MustRegister(m.hits, m.misses, m.bytes, m.stales, m.errors, m.loses, m.up, m.limit, m.wait, m.held, m.evicted, m.freed, m.evictionFailures)
	return m
}

// LimitOf is what an upstream's client tells about its limit.
func (m *Metrics) LimitOf(name string) func(int) {
	if m == nil {
		return nil
	}
	return func(remaining int) { m.limit.WithLabelValues(name).Set(float64(remaining)) }
}

// sourceMetrics are those of one upstream.
type sourceMetrics struct {
	m      *Metrics
	name   string
	up     prometheus.Gauge
	wait   prometheus.Observer
	hits   [2]prometheus.Counter
	misses [2]prometheus.Counter
	got    [2]prometheus.Counter
}

var types = [2]string{"manifest", "blob"}

func (m *Metrics) of(name string) *sourceMetrics {
	if m == nil {
		return nil
	}
	s := &sourceMetrics{m: m, name: name, up: m.up.WithLabelValues(name), wait: m.wait.WithLabelValues(name)}
	s.up.Set(1)
	for i, t := range types {
		s.hits[i], s.misses[i], s.got[i] = m.hits.WithLabelValues(name, t), m.misses.WithLabelValues(name, t), m.bytes.WithLabelValues(name, t)
	}
	for _, r := range upstream.Reasons() { // so that an alert sees the first one
		m.errors.WithLabelValues(name, string(r))
		m.stales.WithLabelValues(name, string(r))
	}
	m.loses.WithLabelValues(name)
	return s
}

func index(blob bool) int {
	if blob {
		return 1
	}
	return 0
}

func (s *sourceMetrics) hit(blob bool) {
	if s != nil {
		s.hits[index(blob)].Inc()
	}
}

func (s *sourceMetrics) miss(blob bool) {
	if s != nil {
		s.misses[index(blob)].Inc()
	}
}

func (s *sourceMetrics) pulled(blob bool, n int64) {
	if s != nil {
		s.got[index(blob)].Add(float64(n))
	}
}

func (s *sourceMetrics) waited(d time.Duration) {
	if s != nil {
		s.wait.Observe(d.Seconds())
	}
}

func (s *sourceMetrics) stale(reason upstream.Reason) {
	if s != nil {
		s.m.stales.WithLabelValues(s.name, string(reason)).Inc()
	}
}

func (s *sourceMetrics) notStored() {
	if s != nil {
		s.m.loses.WithLabelValues(s.name).Inc()
	}
}

// note counts the outcome of a request; "" is one that went well.
func (s *sourceMetrics) note(reason upstream.Reason) {
	if s == nil {
		return
	}
	switch reason {
	case "", upstream.NotFound:
		s.up.Set(1)
		return
	case upstream.Down, upstream.Slow, upstream.Fault, upstream.Limited:
		s.up.Set(0)
	}
	s.m.errors.WithLabelValues(s.name, string(reason)).Inc()
}

// holds notes what another replica has counted in the caches.
func (m *Metrics) holds(bytes int64) {
	if m != nil {
		m.held.Set(float64(bytes))
	}
}

// evictedSome counts one search for what may leave the caches.
func (m *Metrics) evictedSome(done Eviction, err error) {
	if m == nil {
		return
	}
	m.evicted.Add(float64(done.Evicted))
	m.freed.Add(float64(done.Freed))
	if err != nil {
		m.evictionFailures.Inc()
	}
	if done.Held > 0 || err == nil {
		m.held.Set(float64(done.Held))
	}
}
