package api

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway/relay/internal/protocol"
)

// Metrics count requests by route and status. nil counts nothing.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	events   *prometheus.CounterVec
}

// NewMetrics registers the API's metrics at reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "relay_http_requests_total", Help: "Requests answered, by route and status."}, []string{"method", "route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "relay_http_request_seconds", Help: "Time to answer, by route.", Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9)}, []string{"method", "route"}),
	}
	m.events = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "relay_hook_events_total", Help: "Events that other programs posted, by what became of them: accepted, repeated, ignored, refused."}, []string{"sender", "result"})
	reg.MustRegister(m.requests, m.duration, m.events)
	return m
}

// inbound counts the events of a request.
func (m *Metrics) inbound(sender string, r protocol.Result) {
	if m == nil {
		return
	}
	for result, n := range map[string]int{"accepted": r.Accepted, "repeated": r.Repeated, "ignored": r.Ignored, "refused": r.Refused} {
		m.events.WithLabelValues(sender, result).Add(float64(n))
	}
}

// rowMetrics are the metrics of one route.
type rowMetrics struct {
	ok       prometheus.Counter
	duration prometheus.Observer
	other    *prometheus.CounterVec
}

func (m *Metrics) row(method, route string) *rowMetrics {
	if m == nil {
		return nil
	}
	others := m.requests.MustCurryWith(prometheus.Labels{"method": method, "route": route})
	return &rowMetrics{ok: others.WithLabelValues("200"), other: others, duration: m.duration.WithLabelValues(method, route)}
}

func (m *rowMetrics) done(status int, took time.Duration) {
	if m == nil {
		return
	}
	m.duration.Observe(took.Seconds())
	if status == 200 {
		m.ok.Inc()
		return
	}
	m.other.WithLabelValues(strconv.Itoa(status)).Inc()
}
