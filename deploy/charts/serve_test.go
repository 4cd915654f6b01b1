package charts_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"slipway/deploy/internal/harness"
	"slipway/shared/programtest"
)

// The configurations that the charts make are valid and warn of nothing.
func TestConfigurations(t *testing.T) {
	for chart, all := range map[string][]string{
		"registry": {"{}", `{auth: {enabled: false}}`, `{metrics: {enabled: false}}`, `{config: {auth: {htpasswd: {anonymouspull: true}}, slipway: {http: {maxconns: 1000000}}}}`},
		"relay":    {"{}", `{metrics: {enabled: false}}`, `{config: {http: {trustedproxies: [10.0.0.0/8]}}}`},
	} {
		for _, values := range all {
			out, err := harness.CheckConfig(t, harness.Binary(t, chart), unpack(t, render(t, chart, values)))
			if err != nil || string(out) != "the configuration is valid\n" {
				t.Errorf("%s with %s: %v\n%s", chart, values, err, out)
			}
		}
	}
}

// Without metrics nothing listens beside the service.
func TestNoMetricsNoPort(t *testing.T) {
	var registry struct{ HTTP struct{ Debug *struct{} } }
	if err := yaml.Unmarshal([]byte(render(t, "registry", `{metrics: {enabled: false}}`).ConfigMaps[0].Data["config.yml"]), &registry); err != nil {
		t.Fatal(err)
	}
	if registry.HTTP.Debug != nil {
		t.Error("the registry still has a debug server")
	}
}

// Kubernetes gives pods more time to end than the services take.
func TestGracePeriods(t *testing.T) {
	const preStop, cut = 5 * time.Second, 5 * time.Second
	for chart, keys := range map[string][]string{"registry": {"http.draintimeout"}, "relay": {"http.draintimeout", "matrix.timeout"}} {
		m := render(t, chart, "{}")
		template, _ := m.pod(t)
		needed := preStop + cut
		for _, key := range keys {
			needed += duration(t, m.ConfigMaps[0], key)
		}
		if got := time.Duration(*template.Spec.TerminationGracePeriodSeconds) * time.Second; got <= needed {
			t.Errorf("%s: %s to end, it may take %s", chart, got, needed)
		}
	}
}

// duration reads a setting of two levels.
func duration(t *testing.T, config core.ConfigMap, key string) time.Duration {
	t.Helper()
	var settings map[string]map[string]any
	outer, inner, _ := strings.Cut(key, ".")
	_ = yaml.Unmarshal([]byte(config.Data["config.yml"]), &settings) // other sections may have other shapes
	d, err := time.ParseDuration(fmt.Sprint(settings[outer][inner]))
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return d
}

// The services start with what the charts make, as release "registry" or "relay",
// also in a pod that has the variables of the Services of such names, as a pod
// without enableServiceLinks: false would.
func TestServe(t *testing.T) {
	t.Run("registry", func(t *testing.T) {
		m, addr := render(t, "registry", "{}"), programtest.FreeAddr(t)
		secrets := unpackSecret(t, m)
		cmd := exec.Command(harness.Binary(t, "registry"), "serve", unpack(t, m))
		cmd.Env = append(serviceVariables(m), "REGISTRY_HTTP_SECRET_FILE="+filepath.Join(secrets, "http-secret"), "REGISTRY_AUTH_HTPASSWD_PATH="+filepath.Join(secrets, "htpasswd"),
			"REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY="+t.TempDir(), "REGISTRY_HTTP_ADDR="+addr, "REGISTRY_HTTP_DEBUG_ADDR="+programtest.FreeAddr(t))
		p := programtest.Start(t, cmd, "http://"+addr+"/")
		for password, want := range map[string]string{string(m.Secrets[0].Data["password"]): "200", "wrong": "401"} {
			if got := harness.Run(t, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-u", "admin:"+password, "http://"+addr+"/v2/"); got != want {
				t.Errorf("GET /v2/ with the password %q: %s, want %s", password, got, want)
			}
		}
		clean(t, p)
	})
	t.Run("relay", func(t *testing.T) {
		m, addr := render(t, "relay", "{}"), programtest.FreeAddr(t)
		secrets := unpackSecret(t, m)
		cmd := exec.Command(harness.Binary(t, "relay"), "serve", "--config", unpack(t, m))
		cmd.Env = append(serviceVariables(m), "MATRIX_PASSWORD_FILE="+filepath.Join(secrets, "matrix-password"), "ADMIN_PASSWORD_FILE="+filepath.Join(secrets, "admin-password"),
			"RELAY_HTTP_LISTENADDRESS="+addr, "RELAY_METRICS_LISTENADDRESS="+programtest.FreeAddr(t), "RELAY_MATRIX_HOMESERVER=http://127.0.0.1:1",
			"RELAY_DATABASE_CONNECTION="+filepath.Join(t.TempDir(), "relay.db"))
		p := programtest.Start(t, cmd, "http://"+addr+"/readyz")
		if got := harness.Run(t, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-u", "admin:"+string(m.Secrets[0].Data["admin-password"]), "http://"+addr+"/application"); got != "200" {
			t.Errorf("GET /application as the administrator: %s", got)
		}
		clean(t, p)
	})
}

// clean ends a service and wants no word about variables that it does not know.
func clean(t *testing.T, p *programtest.Process) {
	t.Helper()
	if err := p.Stop(t, 10*time.Second); err != nil {
		t.Error(err)
	}
	if strings.Contains(p.Output(), "variable") {
		t.Errorf("it speaks of variables:\n%s", p.Output())
	}
}

// serviceVariables is what Kubernetes puts into pods of a namespace with these
// Services (pkg/kubelet/envvars).
func serviceVariables(m *manifests) []string {
	var env []string
	for _, s := range m.Services {
		const ip = "10.96.0.10"
		name := strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
		env = append(env, name+"_SERVICE_HOST="+ip, fmt.Sprintf("%s_SERVICE_PORT=%d", name, s.Spec.Ports[0].Port), fmt.Sprintf("%s_PORT=tcp://%s:%d", name, ip, s.Spec.Ports[0].Port))
		for _, p := range s.Spec.Ports {
			port := fmt.Sprintf("%s_PORT_%d_TCP", name, p.Port)
			env = append(env, fmt.Sprintf("%s_SERVICE_PORT_%s=%d", name, strings.ToUpper(p.Name), p.Port), fmt.Sprintf("%s=tcp://%s:%d", port, ip, p.Port),
				port+"_PROTO=tcp", fmt.Sprintf("%s_PORT=%d", port, p.Port), port+"_ADDR="+ip)
		}
	}
	return env
}

// unpack writes the configuration as it is mounted.
func unpack(t *testing.T, m *manifests) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yml")
	if err := os.WriteFile(path, []byte(m.ConfigMaps[0].Data["config.yml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// unpackSecret writes the secret's keys as they are mounted.
func unpackSecret(t *testing.T, m *manifests) string {
	t.Helper()
	dir := t.TempDir()
	for key, value := range m.Secrets[0].Data {
		if err := os.WriteFile(filepath.Join(dir, key), value, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
