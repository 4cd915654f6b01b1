package charts_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"slipway/deploy/internal/harness"
)

// startCluster is an API server that has one secret. It returns a kubeconfig.
func startCluster(t *testing.T, secret any) string {
	t.Helper()
	type object = map[string]any
	answers := object{
		"/version": object{"major": "1", "minor": "34", "gitVersion": "v1.34.0"},
		"/api":     object{"kind": "APIVersions", "versions": []string{"v1"}},
		"/apis":    object{"kind": "APIGroupList", "apiVersion": "v1", "groups": []string{}},
		"/api/v1": object{"kind": "APIResourceList", "groupVersion": "v1", "resources": []any{
			object{"name": "secrets", "namespaced": true, "kind": "Secret", "verbs": []string{"get"}},
		}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok && filepath.Dir(r.URL.Path) == "/api/v1/namespaces/images/secrets" {
			answer, ok = secret, true
		}
		w.Header().Set("Content-Type", "application/json")
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": http.StatusNotFound}
		}
		_ = json.NewEncoder(w).Encode(answer) // helm says what it misses
	}))
	t.Cleanup(server.Close)
	return harness.Write(t, filepath.Join(t.TempDir(), "kubeconfig"), fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: %q}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
users: [{name: test, user: {}}]
`, server.URL))
}
