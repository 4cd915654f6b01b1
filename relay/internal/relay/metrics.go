package relay

import "github.com/prometheus/client_golang/prometheus"

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
	reg.MustRegister(m.accepted, m.refused, m.sent, m.dead, m.attempts, m.rateLimited, m.commit, m.batch, m.delivery)
	return m
}
