package health

import (
	"encoding/json"
	"net/http"
)

// ServeHTTP implements http.Handler: 200 and {} while all is well, else 503 and
// the failing checks' names and texts.
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
	if len(failures) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(body) // a client that hung up is no failure of ours
}
