package account

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts logins that failed.
type Metrics struct {
	wrong, limited prometheus.Counter
}

// NewMetrics registers the metrics at reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	failed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relay_failed_logins_total", Help: "Logins with a name and a password that failed: wrong, or limited after too many of them.",
	}, []string{"reason"})
	reg.MustRegister(failed)
	return &Metrics{wrong: failed.WithLabelValues("wrong"), limited: failed.WithLabelValues("limited")}
}
