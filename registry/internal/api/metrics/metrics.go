// Package metrics counts the requests of the API.
package metrics

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway/registry/internal/auth"
)

// Requests counts requests, under the names that CNCF distribution gives them, and logins that failed.
// Labels are closed sets: a row's name, its method and the status; the reason.
type Requests struct {
	requests     *prometheus.CounterVec
	inFlight     *prometheus.GaugeVec
	duration     *prometheus.HistogramVec
	requestSize  *prometheus.HistogramVec
	responseSize *prometheus.HistogramVec
	failedLogins map[auth.Reason]prometheus.Counter
}

// New registers the metrics of the HTTP API and returns them.
func New(registerer prometheus.Registerer) *Requests {
	const ns, sub = "registry", "http"
	sizes := prometheus.ExponentialBuckets(1024, 8, 8)
	m := &Requests{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "requests_total", Help: "Requests answered.",
		}, []string{"handler", "method", "code"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: ns, Subsystem: sub, Name: "in_flight_requests", Help: "Requests being answered now.",
		}, []string{"handler"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: ns, Subsystem: sub, Name: "request_duration_seconds", Help: "Time from a request's header to the end of its answer.", Buckets: prometheus.DefBuckets,
		}, []string{"handler", "method"}),
		requestSize: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: ns, Subsystem: sub, Name: "request_size_bytes", Help: "Announced length of request bodies.", Buckets: sizes,
		}, []string{"handler"}),
		responseSize: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: ns, Subsystem: sub, Name: "response_size_bytes", Help: "Bytes of answers' bodies.", Buckets: sizes,
		}, []string{"handler"}),
	}
	registerer.MustRegister(m.requests, m.inFlight, m.duration, m.requestSize, m.responseSize)
	failed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: ns, Name: "failed_logins_total", Help: "Logins with a wrong or revoked credential, of clients and on the pages.",
	}, []string{"reason"})
	m.failedLogins = map[auth.Reason]prometheus.Counter{}
	for _, reason := range auth.FailedLogins() {
		m.failedLogins[reason] = failed.WithLabelValues(string(reason))
	}
	registerer.MustRegister(failed)
	return m
}

// Refused counts a refusal that means a failed login. A nil *Requests counts nothing.
func (m *Requests) Refused(reason auth.Reason) {
	if m == nil {
		return
	}
	if failed, ok := m.failedLogins[reason]; ok {
		failed.Inc()
	}
}

// Row holds the metrics of one row, looked up once.
type Row struct {
	requests     *prometheus.CounterVec
	inFlight     prometheus.Gauge
	duration     prometheus.Observer
	requestSize  prometheus.Observer
	responseSize prometheus.Observer
}

// Row returns the metrics of one row. A nil *Row counts nothing.
func (m *Requests) Row(name, method string) *Row {
	if m == nil {
		return nil
	}
	method = strings.ToLower(method)
	return &Row{
		requests:     m.requests.MustCurryWith(prometheus.Labels{"handler": name, "method": method}),
		inFlight:     m.inFlight.WithLabelValues(name),
		duration:     m.duration.WithLabelValues(name, method),
		requestSize:  m.requestSize.WithLabelValues(name),
		responseSize: m.responseSize.WithLabelValues(name),
	}
}

// Begin counts a request that is being answered.
func (m *Row) Begin() {
	if m != nil {
		m.inFlight.Inc()
	}
}

// End counts a request whose answer ended.
func (m *Row) End(r *http.Request, status int, written int64, took time.Duration) {
	if m == nil {
		return
	}
	m.inFlight.Dec()
	m.requests.WithLabelValues(strconv.Itoa(status)).Inc()
	m.duration.Observe(took.Seconds())
	m.requestSize.Observe(float64(max(r.ContentLength, 0)))
	m.responseSize.Observe(float64(written))
}
