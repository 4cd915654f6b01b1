package app

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"slipway/registry/internal/config"
	"slipway/shared/health"
)

// Profiles cost CPU and show the command line, so they are served only where the configuration asks.
func TestDebugHandler_Pprof(t *testing.T) {
	for _, on := range []bool{false, true} {
		cfg := config.Default()
		cfg.HTTP.Debug.Pprof = on
		h := newDebugHandler(&cfg, &health.Monitor{}, nil)
		want := map[bool]int{false: http.StatusNotFound, true: http.StatusOK}[on]
		for _, path := range []string{"/debug/vars", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/heap", "/debug/pprof/goroutine"} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
			if w.Code != want {
				t.Errorf("pprof: %v: GET %s: %d, want %d", on, path, w.Code, want)
			}
		}
	}
}
