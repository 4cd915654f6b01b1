package notify

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts events, under the names that distribution 3 gives them and some
// more. Labels are the endpoints of the configuration and closed sets.
type Metrics struct {
	events  *prometheus.CounterVec
	status  *prometheus.CounterVec
	dropped *prometheus.CounterVec
	pending *prometheus.Desc
	bytes   *prometheus.Desc
	oldest  *prometheus.Desc

	endpoints []*endpoint
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	const ns, sub = "registry", "notifications"
	name := func(n string) string { return prometheus.BuildFQName(ns, sub, n) }
	label := []string{"endpoint"}
	m := &Metrics{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: name("events_total"), Help: "Events put into queues (Events), deliveries that succeeded (Successes), were refused (Failures) or had no answer (Errors).",
		}, []string{"type", "endpoint"}),
		status: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: name("status_total"), Help: "Answers of endpoints by status.",
		}, []string{"code", "endpoint"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: name("dropped_total"), Help: "Events that were never taken: a full queue had no room for a change or a pull, or the endpoint refused the event itself.",
		}, []string{"endpoint", "kind"}),
		pending: prometheus.NewDesc(name("pending_total"), "Events that wait.", label, nil),
		bytes:   prometheus.NewDesc(name("queue_bytes"), "Bytes of the events that wait.", label, nil),
		oldest:  prometheus.NewDesc(name("oldest_seconds"), "Age of the oldest event that waits.", label, nil),
	}
	registerer.MustRegister(m.events, m.status, m.dropped, m)
	return m
}

// watch takes the endpoints whose queues are looked at. Their counters begin at 0,
// so that the first event that is lost is seen as an increase.
func (m *Metrics) watch(endpoints []*endpoint) {
	m.endpoints = endpoints
	for _, e := range endpoints {
		for _, kind := range []string{"Events", "Successes", "Failures", "Errors"} {
			m.events.WithLabelValues(kind, e.name)
		}
		m.drop(e.name, dropped{})
		m.refuse(e.name, 0)
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	out <- m.pending
	out <- m.bytes
	out <- m.oldest
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	for _, e := range m.endpoints {
		b := e.queue.backlog()
		age := 0.0
		if !b.oldest.IsZero() {
			age = max(time.Since(b.oldest).Seconds(), 0)
		}
		out <- prometheus.MustNewConstMetric(m.pending, prometheus.GaugeValue, float64(b.events()), e.name)
		out <- prometheus.MustNewConstMetric(m.bytes, prometheus.GaugeValue, float64(b.bytes), e.name)
		out <- prometheus.MustNewConstMetric(m.oldest, prometheus.GaugeValue, age, e.name)
	}
}

func (m *Metrics) queued(endpoint string, n int) {
	m.events.WithLabelValues("Events", endpoint).Add(float64(n))
}

func (m *Metrics) drop(endpoint string, d dropped) {
	m.dropped.WithLabelValues(endpoint, "change").Add(float64(d.changes))
	m.dropped.WithLabelValues(endpoint, "pull").Add(float64(d.pulls))
}

// refuse counts events that an endpoint would not have.
func (m *Metrics) refuse(endpoint string, n int) {
	m.dropped.WithLabelValues(endpoint, "refused").Add(float64(n))
}

// tried counts a delivery; status is 0 if there was no answer.
func (m *Metrics) tried(endpoint string, status int, ok bool) {
	kind := "Errors"
	switch {
	case ok:
		kind = "Successes"
	case status != 0:
		kind = "Failures"
	}
	m.events.WithLabelValues(kind, endpoint).Inc()
	if status != 0 {
		m.status.WithLabelValues(statusText(status), endpoint).Inc()
	}
}
