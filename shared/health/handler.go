package health

import (
	"encoding/json"
	"net/http"
	"slices"
)

// ServeHTTP implements http.Handler: the failing checks' names and texts, with
// 503 if one of them is more than a warning.
func (m *Monitor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "Method not allowed", http.StatusMethodNotAllowed)
		return
	}
	failures := m.Failures()
	body, err := json.Marshal(failures)
	if err != nil {
		http.Error(w, "the health report cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	red := func(w *watch) bool {
		_, fails := failures[w.Name]
		return fails && !w.Warning
	}
	if slices.ContainsFunc(m.checks, red) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(body) // a client that hung up is no failure of ours
}
