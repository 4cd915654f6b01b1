package notify

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts events, under distribution 3's names where it has one.
type Metrics struct {
	registerer prometheus.Registerer
	events     *prometheus.CounterVec
	status     *prometheus.CounterVec
	dropped    *prometheus.CounterVec
}

func metricName(name string) string {
	return prometheus.BuildFQName("registry", "notifications", name)
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		registerer: registerer,
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: metricName("events_total"), Help: "Events queued (Events), and deliveries that succeeded (Successes), were refused (Failures) or had no answer (Errors).",
		}, []string{"type", "endpoint"}),
		status: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: metricName("status_total"), Help: "Answers of endpoints by status.",
		}, []string{"code", "endpoint"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: metricName("dropped_total"), Help: "Events that a full queue lost.",
		}, []string{"endpoint", "kind"}),
	}
	registerer.MustRegister(m.events, m.status, m.dropped)
	return m
}

// watch registers the gauges of the endpoints. Counters begin at 0, so that the
// first event that is lost shows as an increase.
func (m *Metrics) watch(endpoints []*endpoint) {
	for _, e := range endpoints {
		for _, kind := range []string{"Events", "Successes", "Failures", "Errors"} {
			m.events.WithLabelValues(kind, e.name)
		}
		m.drop(e.name, 0, 0)
		m.gauge(e, "pending_total", "Events that wait.", func(b Backlog) float64 { return float64(b.Changes + b.Pulls) })
		m.gauge(e, "queue_bytes", "Bytes of the events that wait.", func(b Backlog) float64 { return float64(b.Bytes) })
		m.gauge(e, "oldest_seconds", "Age of the oldest event that waits.", func(b Backlog) float64 {
			if b.First == nil {
				return 0
			}
			return max(time.Since(b.First.Time).Seconds(), 0)
		})
	}
}

func (m *Metrics) gauge(e *endpoint, name, help string, value func(Backlog) float64) {
	m.registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: metricName(name), Help: help, ConstLabels: prometheus.Labels{"endpoint": e.name},
	}, func() float64 { return value(e.backlog()) }))
}

func (m *Metrics) queued(endpoint string) { m.events.WithLabelValues("Events", endpoint).Inc() }

func (m *Metrics) drop(endpoint string, changes, pulls int) {
	m.dropped.WithLabelValues(endpoint, "change").Add(float64(changes))
	m.dropped.WithLabelValues(endpoint, "pull").Add(float64(pulls))
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
