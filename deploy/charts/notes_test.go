package charts_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

// What helm prints behind an installation tells where the service is and how to
// get in, and what to beware of.
func TestNotes(t *testing.T) {
	tests := []struct {
		chart, values string
		want, not     []string
	}{
		{
			"registry", "{}",
			[]string{"registry.images.svc:5000", "Log in as admin", "get secret registry ", "is freed every 24h", "exec deploy/registry -- registry garbage-collect"},
			[]string{"auth.enabled is false", "gone with the pod"},
		},
		{
			"registry", `{auth: {enabled: false}, persistence: {enabled: false}, config: {storage: {maintenance: {gc: {enabled: false}}}}, ingress: {enabled: true, hosts: [r.example.org], tls: [{hosts: [r.example.org]}]}}`,
			[]string{"https://r.example.org", "auth.enabled is false", "gone with the pod", "gc.enabled turns on"},
			[]string{"Log in as", "is freed every"},
		},
		{"registry", `{existingSecret: mine}`, nil, []string{"Log in as", "auth.enabled is false"}},
		{"relay", "{}", []string{"relay.images.svc:8080", "Log in as admin", "get secret relay ", "exec relay-0 -- relay doctor"}, []string{"gone with the pod"}},
		{"relay", `{secrets: {existingSecret: mine}, persistence: {enabled: false}}`, []string{"gone with the pod"}, []string{"Log in as"}},
	}
	cluster := startCluster(t, nil)
	for _, tt := range tests {
		notes := install(t, cluster, tt.chart, tt.values)
		for _, text := range tt.want {
			if !strings.Contains(notes, text) {
				t.Errorf("%s with %s: no %q in\n%s", tt.chart, tt.values, text, notes)
			}
		}
		for _, text := range tt.not {
			if strings.Contains(notes, text) {
				t.Errorf("%s with %s: %q in\n%s", tt.chart, tt.values, text, notes)
			}
		}
	}
}

// install runs helm install without installing, and returns its notes.
func install(t *testing.T, kubeconfig, chart, values string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), programtest.Tool(t, "helm"), "install", chart, chart, "--namespace", "images", "--dry-run=server", "--kubeconfig", kubeconfig, "--values", "-")
	cmd.Stdin = strings.NewReader(merge(t, requiredValues[chart], values))
	// Releases are remembered nowhere.
	cmd.Env = append(os.Environ(), "HELM_DRIVER=memory", "HELM_MEMORY_DRIVER_DATA="+os.DevNull)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("helm install %s: %v\n%s", chart, err, out)
	}
	_, notes, _ := strings.Cut(string(out), "\nNOTES:\n")
	return notes
}
