package charts_test

import (
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
)

// A volume for one node has one pod at a time; the relay has one in any case.
func TestOneWriter(t *testing.T) {
	if got := render(t, "registry", "{}").Deployments[0].Spec.Strategy.Type; got != apps.RecreateDeploymentStrategyType {
		t.Errorf("strategy %s on a volume for one node", got)
	}
	m := render(t, "registry", `{replicas: 3, persistence: {accessModes: [ReadWriteMany]}}`)
	if d := m.Deployments[0].Spec; *d.Replicas != 3 || d.Strategy.Type != apps.RollingUpdateDeploymentStrategyType {
		t.Errorf("%d replicas, strategy %s on a volume for many nodes", *d.Replicas, d.Strategy.Type)
	}
	if m.Claims[0].Spec.AccessModes[0] != core.ReadWriteMany {
		t.Errorf("claim %v", m.Claims[0].Spec.AccessModes)
	}
	if s := render(t, "relay", "{}").StatefulSets[0].Spec; *s.Replicas != 1 {
		t.Errorf("the relay has %d replicas", *s.Replicas)
	}
	s := render(t, "relay", `{replicas: 3, config: {database: {dialect: postgres, host: db}}}`).StatefulSets[0].Spec
	if *s.Replicas != 3 || len(s.VolumeClaimTemplates) != 0 {
		t.Errorf("on PostgreSQL the relay has %d replicas and %d volumes", *s.Replicas, len(s.VolumeClaimTemplates))
	}
	for _, mount := range s.Template.Spec.Containers[0].VolumeMounts {
		if mount.Name == "data" {
			t.Error("on PostgreSQL a volume is mounted that is not there")
		}
	}
}

// On an object store there is no volume, and any number of pods.
func TestObjectStore(t *testing.T) {
	for _, store := range []string{"s3: {bucket: images, region: eu-central-1}", "s3aws: {bucket: images, region: eu-central-1}", "azure: {accountname: a, container: images}", "gcs: {bucket: images}"} {
		m := render(t, "registry", `{replicas: 3, config: {storage: {`+store+`}}}`)
		d := m.Deployments[0].Spec
		if *d.Replicas != 3 || d.Strategy.Type != apps.RollingUpdateDeploymentStrategyType || len(m.Claims) != 0 {
			t.Errorf("%s: %d replicas, strategy %s, %d claims", store, *d.Replicas, d.Strategy.Type, len(m.Claims))
		}
		writable := false
		for _, mount := range d.Template.Spec.Containers[0].VolumeMounts {
			writable = writable || mount.Name == "spool" && mount.MountPath == "/tmp"
		}
		if text := m.ConfigMaps[0].Data["config.yml"]; !writable || strings.Contains(text, "filesystem") {
			t.Errorf("%s: a spool in /tmp: %v; the configuration is\n%s", store, writable, text)
		}
	}
}

// Claims have the class that was asked for, and one that exists is used.
func TestVolumes(t *testing.T) {
	m := render(t, "registry", `{persistence: {storageClass: "-"}}`)
	if c := m.Claims[0]; c.Spec.StorageClassName == nil || *c.Spec.StorageClassName != "" || c.Annotations["helm.sh/resource-policy"] != "keep" {
		t.Errorf("claim %+v", c)
	}
	for _, chart := range charts {
		m := render(t, chart, `{persistence: {existingClaim: old-images}}`)
		template, _ := m.pod(t)
		if len(m.Claims) != 0 || m.StatefulSets != nil && m.StatefulSets[0].Spec.VolumeClaimTemplates != nil {
			t.Errorf("%s makes a claim", chart)
		}
		if !mounts(template.Spec, "old-images") {
			t.Errorf("%s does not use the claim", chart)
		}
	}
}

// A secret that exists takes the place of the one that a chart makes.
func TestExistingSecrets(t *testing.T) {
	for chart, values := range map[string]string{"registry": `{existingSecret: mine}`, "relay": `{secrets: {existingSecret: mine, matrix: null}}`} {
		m := render(t, chart, values)
		template, _ := m.pod(t)
		if len(m.Secrets) != 0 || secretVolume(template.Spec).SecretName != "mine" {
			t.Errorf("%s: %d secrets, volume of %s", chart, len(m.Secrets), secretVolume(template.Spec).SecretName)
		}
	}
}

// The bot can log in with a token.
func TestAccessToken(t *testing.T) {
	m := render(t, "relay", `{secrets: {login: accesstoken, matrix: syt_x}, config: {matrix: {username: null}}}`)
	template, _ := m.pod(t)
	if e := template.Spec.Containers[0].Env[0]; e.Name != "RELAY_MATRIX_ACCESSTOKEN_FILE" || string(m.Secrets[0].Data["matrix-accesstoken"]) != "syt_x" {
		t.Errorf("%s, %v", e.Name, m.Secrets[0].Data)
	}
}

// The login of the values goes under the one of the configuration.
func TestLogin(t *testing.T) {
	text := render(t, "registry", `{config: {auth: {htpasswd: {realm: mine, cachettl: 5m}}}}`).ConfigMaps[0].Data["config.yml"]
	for _, line := range []string{"realm: mine\n", "cachettl: 5m\n", "path: /run/secrets/registry/htpasswd\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
	if text := render(t, "registry", `{auth: {enabled: false}}`).ConfigMaps[0].Data["config.yml"]; strings.Contains(text, "htpasswd") {
		t.Errorf("a login that nobody asked for:\n%s", text)
	}
}

// Where the pod speaks TLS its probes do.
func TestProbesSpeakTLS(t *testing.T) {
	template, _ := render(t, "registry", `{config: {http: {tls: {certificate: /tls/tls.crt, key: /tls/tls.key}}}}`).pod(t)
	if got := template.Spec.Containers[0].ReadinessProbe.HTTPGet.Scheme; got != core.URISchemeHTTPS {
		t.Errorf("the probe asks by %s", got)
	}
}

// What an old Kubernetes does not know is left out.
func TestOldKubernetes(t *testing.T) {
	out, err := template(t, "registry", "{}", "--kube-version", "1.28.0")
	if err != nil || strings.Contains(out, "preStop") {
		t.Errorf("1.28 knows no sleep before the end: %v", err)
	}
}

func mounts(pod core.PodSpec, claim string) bool {
	for _, v := range pod.Volumes {
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim {
			return true
		}
	}
	return false
}

// Values that cannot work are refused, with a sentence that says what to do.
func TestBadValues(t *testing.T) {
	tests := []struct{ chart, values, want string }{
		{"registry", `{persistent: {size: 1Gi}}`, "'persistent' not allowed"},
		{"registry", `{persistence: {size: much}}`, "'much' does not match"},
		{"registry", `{service: {port: 70000}}`, "/service/port"},
		{"registry", `{auth: {user: "a:b"}}`, "/auth/user"},
		{"registry", `{replicas: 2}`, "replicas: more than one needs a volume that several nodes can write"},
		{"registry", `{replicas: 2, persistence: {enabled: false}}`, "replicas: several processes share their images"},
		{"registry", `{ingress: {enabled: true}}`, "ingress.hosts: name what clients use"},
		{"registry", `{auth: {enabled: false, htpasswd: "a:b"}}`, "auth.htpasswd: has no effect"},
		{"registry", `{config: {http: {addr: "0.0.0.0:80"}}}`, "config.http.addr: the Service and the probes look for port 5000"},
		{"relay", `{config: {matrix: {homeserver: ""}}}`, "config.matrix.homeserver: set it to the homeserver's URL"},
		{"relay", `{config: {admin: {matrixid: ""}}}`, "config.admin.matrixid: set it"},
		{"relay", `{secrets: {matrix: ""}}`, "secrets.matrix: set it to the password of the bot's account"},
		{"relay", `{replicas: 2}`, "replicas: SQLite is for one relay"},
		{"relay", `{secrets: {login: sso}}`, "/secrets/login"},
		{"relay", `{config: {http: {listenaddress: "0.0.0.0:80"}}}`, "config.http.listenaddress: the Service and the probes look for port 8080"},
	}
	for _, tt := range tests {
		if out, err := template(t, tt.chart, tt.values); err == nil || !strings.Contains(out, tt.want) {
			t.Errorf("%s with %s: %v\n%s\nwant: %s", tt.chart, tt.values, err, out, tt.want)
		}
	}
}
