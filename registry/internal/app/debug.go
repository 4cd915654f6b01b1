package app

import (
	"expvar"
	"net/http"
	"net/http/pprof"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"slipway/registry/internal/config"
	"slipway/shared/health"
)

// newDebugHandler serves diagnostics for operators on a separate address: health, metrics and, where
// the configuration asks for them, expvar and profiles. It requires no login, and a profile shows the
// command line and costs CPU.
func newDebugHandler(cfg *config.Config, checks *health.Monitor, metrics *prometheus.Registry) http.Handler {
	router := mux.NewRouter()
	router.Handle("/debug/health", checks)
	if cfg.HTTP.Debug.Pprof {
		router.Handle("/debug/vars", expvar.Handler())
		router.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		router.HandleFunc("/debug/pprof/profile", pprof.Profile)
		router.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		router.HandleFunc("/debug/pprof/trace", pprof.Trace)
		router.PathPrefix("/debug/pprof/").HandlerFunc(pprof.Index)
	}
	if metrics != nil {
		router.Handle(cfg.HTTP.Debug.Prometheus.Path, promhttp.HandlerFor(metrics, promhttp.HandlerOpts{Registry: metrics}))
	}
	return router
}
