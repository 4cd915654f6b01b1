package relay

import (
	"sync/atomic"
	"time"

	"slipway/relay/internal/store"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the numbers that a [Service] keeps for Prometheus. Labels are closed sets.
type Metrics struct {
	accepted    prometheus.Counter
	refused     *prometheus.CounterVec // kind
	sent        prometheus.Counter
	dead        *prometheus.CounterVec // reason
	attempts    *prometheus.CounterVec // class, "ok" for success
	rateLimited prometheus.Counter
	commit      prometheus.Histogram
	batch       prometheus.Histogram
	delivery    prometheus.Histogram
	dispatcher  atomic.Pointer[dispatcher] // whom the gauges ask
}

// NewMetrics registers the relay's metrics at reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		accepted:    prometheus.NewCounter(prometheus.CounterOpts{Name: "relay_messages_accepted_total", Help: "Messages committed to the outbox."}),
		refused:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "relay_messages_refused_total", Help: "Messages not accepted, by kind of refusal."}, []string{"kind"}),
		sent:        prometheus.NewCounter(prometheus.CounterOpts{Name: "relay_messages_sent_total", Help: "Messages that the homeserver took."}),
		dead:        prometheus.NewCounterVec(prometheus.CounterOpts{Name: "relay_messages_dead_total", Help: "Messages given up, by reason."}, []string{"reason"}),
		attempts:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "relay_delivery_attempts_total", Help: "Delivery attempts by result."}, []string{"result"}),
		rateLimited: prometheus.NewCounter(prometheus.CounterOpts{Name: "relay_homeserver_ratelimited_seconds_total", Help: "Seconds that the homeserver told us to wait."}),
		commit:      prometheus.NewHistogram(prometheus.HistogramOpts{Name: "relay_accept_commit_seconds", Help: "Time a message waited for its durable commit.", Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16)}),
		batch:       prometheus.NewHistogram(prometheus.HistogramOpts{Name: "relay_commit_batch_messages", Help: "Messages accepted in one commit.", Buckets: prometheus.ExponentialBuckets(1, 2, 10)}),
		delivery:    prometheus.NewHistogram(prometheus.HistogramOpts{Name: "relay_delivery_seconds", Help: "Time from acceptance to the homeserver's yes.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 13)}),
	}
	for _, reason := range []string{"refused", "age"} { // from 0 on, so that the first one is an increase
		m.dead.WithLabelValues(reason)
	}
	reg.MustRegister(m.accepted, m.refused, m.sent, m.dead, m.attempts, m.rateLimited, m.commit, m.batch, m.delivery)
	m.gauge(reg, "relay_queue_depth", "Messages on their way.", func(d *dispatcher) float64 { return float64(d.depth.Load()) })
	m.gauge(reg, "relay_queue_oldest_seconds", "Age of the oldest message on its way.", func(d *dispatcher) float64 { return d.age().Seconds() })
	m.gauge(reg, "relay_rooms_parked", "Rooms where nothing is sent until somebody mends them.", func(d *dispatcher) float64 { return float64(d.parked()) })
	m.gauge(reg, "relay_delivery_paused", "1 while nothing is sent at all.", func(d *dispatcher) float64 {
		if reason, _ := d.gate.state(); reason != "" {
			return 1
		}
		return 0
	})
	return m
}

// gauge registers a number that is asked for when it is wanted; 0 before there is a service.
func (m *Metrics) gauge(reg prometheus.Registerer, name, help string, value func(*dispatcher) float64) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
		if d := m.dispatcher.Load(); d != nil {
			return value(d)
		}
		return 0
	}))
}

// age returns how long ago the oldest of all entries that wait was accepted.
func (d *dispatcher) age() time.Duration {
	oldest := d.oldest()
	if oldest == 0 {
		return 0
	}
	return max(0, time.Since(store.Time(oldest)))
}

// parked counts the rooms that are parked, but for those that nobody sends to any more.
func (d *dispatcher) parked() (n int) {
	for _, q := range d.all() {
		q.mu.Lock()
		parked, waits := q.room.Parked != "", q.waiting > 0
		q.mu.Unlock()
		if parked && (waits || d.wanted(q)) {
			n++
		}
	}
	return n
}

// wanted tells whether an application sends to the room.
func (d *dispatcher) wanted(q *queue) bool {
	_, ok := d.accounts.InRoom(q.id)
	return ok
}
