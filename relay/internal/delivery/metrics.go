package delivery

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the Prometheus metrics of a [Delivery]. Labels are closed sets.
type Metrics struct {
	sent        prometheus.Counter
	dead        *prometheus.CounterVec // reason
	attempts    *prometheus.CounterVec // class, "ok" for success
	rateLimited prometheus.Counter
	latency     prometheus.Histogram
	delivery    atomic.Pointer[Delivery] // whom the gauges ask
}

// NewMetrics registers the metrics at reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		sent:        prometheus.NewCounter(prometheus.CounterOpts{Name: "relay_messages_sent_total", Help: "Messages that the homeserver took."}),
		dead:        prometheus.NewCounterVec(prometheus.CounterOpts{Name: "relay_messages_dead_total", Help: "Messages given up, by reason."}, []string{"reason"}),
		attempts:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "relay_delivery_attempts_total", Help: "Delivery attempts by result."}, []string{"result"}),
		rateLimited: prometheus.NewCounter(prometheus.CounterOpts{Name: "relay_homeserver_ratelimited_seconds_total", Help: "Seconds that the homeserver asked the relay to wait."}),
		latency:     prometheus.NewHistogram(prometheus.HistogramOpts{Name: "relay_delivery_seconds", Help: "Time from queueing to the homeserver's yes; a delayed message is queued when it is due.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 13)}),
	}
	for _, reason := range []string{"refused", "age"} { // from 0 on, so that the first one is an increase
		m.dead.WithLabelValues(reason)
	}
	reg.MustRegister(m.sent, m.dead, m.attempts, m.rateLimited, m.latency)
	m.gauge(reg, "relay_queue_depth", "Messages on their way and what follows them, such as edits.", func(ctx context.Context, d *Delivery) float64 {
		n, _ := waiting(ctx, d.store)
		return float64(n)
	})
	m.gauge(reg, "relay_queue_oldest_seconds", "Time since the oldest of those that come next in their rooms was queued, except delayed ones.", func(ctx context.Context, d *Delivery) float64 {
		_, age := waiting(ctx, d.store)
		return age.Seconds()
	})
	m.gauge(reg, "relay_rooms_blocked", "Rooms where nothing is sent until a person does something.", func(ctx context.Context, d *Delivery) float64 {
		n, _ := d.store.BlockedRooms(ctx)
		return float64(n)
	})
	m.gauge(reg, "relay_delivering", "1 while this relay delivers, 0 while another one does or none.", func(context.Context, *Delivery) float64 { return 1 })
	m.gauge(reg, "relay_delivery_paused", "1 while nothing is sent at all.", func(_ context.Context, d *Delivery) float64 {
		if d.pause.Closed() {
			return 1
		}
		return 0
	})
	return m
}

// gaugeTimeout bounds how long a gauge asks the database.
const gaugeTimeout = 5 * time.Second

// gauge registers a number that is asked for when it is wanted; 0 before there is a delivery.
func (m *Metrics) gauge(reg prometheus.Registerer, name, help string, value func(context.Context, *Delivery) float64) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
		d := m.delivery.Load()
		if d == nil {
			return 0
		}
		ctx, cancel := context.WithTimeout(context.Background(), gaugeTimeout)
		defer cancel()
		return value(ctx, d)
	}))
}
