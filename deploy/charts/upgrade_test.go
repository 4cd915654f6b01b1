package charts_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"sigs.k8s.io/yaml"
)

// An upgrade keeps the random secrets that an installation made, and takes over
// only what the values say.
func TestUpgradeKeepsSecrets(t *testing.T) {
	for _, chart := range charts {
		first := render(t, chart, "{}").Secrets[0]
		if first.Name != chart {
			t.Fatalf("secret %s", first.Name)
		}
		cluster := startCluster(t, first)
		again := upgrade(t, cluster, chart, map[string]string{"registry": "{}", "relay": `{secrets: {matrix: ""}}`}[chart])
		if !reflect.DeepEqual(again, first.Data) {
			t.Errorf("%s: an upgrade changes the secrets from %v to %v", chart, first.Data, again)
		}
	}
}

// Another user has another line, with the same password; lines of one's own
// replace it.
func TestUpgradeChangesUser(t *testing.T) {
	first := render(t, "registry", "{}").Secrets[0]
	cluster := startCluster(t, first)
	other := upgrade(t, cluster, "registry", `{auth: {user: root}}`)
	if string(other["htpasswd"])[:5] != "root:" || string(other["password"]) != string(first.Data["password"]) {
		t.Errorf("another user: %s, password changed: %v", other["htpasswd"], string(other["password"]) != string(first.Data["password"]))
	}
	mine := upgrade(t, cluster, "registry", `{auth: {htpasswd: "alice:$2y$05$x"}}`)
	want := map[string][]byte{"http-secret": first.Data["http-secret"], "htpasswd": []byte("alice:$2y$05$x\n")}
	if !maps.EqualFunc(mine, want, func(a, b []byte) bool { return string(a) == string(b) }) {
		t.Errorf("lines of one's own: %q", mine)
	}
}

// upgrade renders with a look at the cluster and returns the secret.
func upgrade(t *testing.T, kubeconfig, chart, values string) map[string][]byte {
	t.Helper()
	out, err := template(t, chart, values, "--is-upgrade", "--dry-run=server", "--kubeconfig", kubeconfig)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return decode(t, out).Secrets[0].Data
}

// startCluster is an API server that has one secret, or none if it is nil. It
// returns a kubeconfig.
func startCluster(t *testing.T, secret any) string {
	t.Helper()
	answers := map[string]any{
		"/version": map[string]string{"major": "1", "minor": "34", "gitVersion": "v1.34.0"},
		"/api":     map[string]any{"kind": "APIVersions", "versions": []string{"v1"}},
		"/apis":    map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []string{}},
		"/api/v1": map[string]any{"kind": "APIResourceList", "groupVersion": "v1", "resources": []any{
			map[string]any{"name": "secrets", "namespaced": true, "kind": "Secret", "verbs": []string{"get"}},
		}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok && secret != nil && filepath.Dir(r.URL.Path) == "/api/v1/namespaces/images/secrets" {
			answer, ok = secret, true
		}
		w.Header().Set("Content-Type", "application/json")
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": http.StatusNotFound}
		}
		_ = json.NewEncoder(w).Encode(answer) // helm says what it misses
	}))
	t.Cleanup(server.Close)
	config, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "test",
		"clusters": []any{map[string]any{"name": "test", "cluster": map[string]string{"server": server.URL}}},
		"contexts": []any{map[string]any{"name": "test", "context": map[string]string{"cluster": "test", "user": "test"}}},
		"users":    []any{map[string]any{"name": "test", "user": map[string]string{}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
