package charts_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"slipway/tools/harness"
)

// everything turns on all that a chart can make.
const everything = `
ingress: {enabled: true, className: nginx, hosts: [images.example.org], tls: [{secretName: images-tls, hosts: [images.example.org]}]}
httpRoute: {enabled: true, parentRefs: [{name: web}], hostnames: [images.example.org], annotations: {a: b}}
service: {type: LoadBalancer, nodePort: 30500, externalTrafficPolicy: Cluster, loadBalancerClass: fast, loadBalancerSourceRanges: [10.0.0.0/8]}
podDisruptionBudget: {enabled: true}
metrics: {enabled: true, serviceMonitor: {enabled: true, labels: {release: prometheus}}, prometheusRule: {enabled: true}}
networkPolicy: {enabled: true, from: [{podSelector: {}}], metricsFrom: [{namespaceSelector: {matchLabels: {name: monitoring}}}]}
persistence: {storageClass: fast, annotations: {a: b}}
image: {digest: "sha256:0123"}
imagePullSecrets: [{name: login}]
env: [{name: TZ, value: UTC}]
volumes: [{name: more, emptyDir: {}}]
volumeMounts: [{name: more, mountPath: /more}]
serviceAccount: {create: true, annotations: {a: b}}
envFrom: [{secretRef: {name: more}}]
initContainers: [{name: first, image: busybox}]
extraContainers: [{name: beside, image: busybox}]
extraObjects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: "{{ .Release.Name }}-more"}}]
annotations: {a: b}
dnsConfig: {nameservers: [10.0.0.1]}
hostAliases: [{ip: 10.0.0.1, hostnames: [a.example.org]}]
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]
priorityClassName: high
podAnnotations: {a: b}
podLabels: {a: b}
nodeSelector: {disk: fast}
tolerations: [{key: disk, operator: Exists}]
affinity: {nodeAffinity: {}}
`

// helm lint finds nothing. Whatever is rendered, Kubernetes knows every field of
// it, and the parts fit together: selectors find the pod, ports and volumes exist.
func TestFull_Charts(t *testing.T) {
	for _, chart := range charts {
		harness.Run(t, "helm", append([]string{"lint", "--strict", chart}, required[chart]...)...)
		for _, values := range []string{"{}", everything, `{metrics: {enabled: true}}`, `{metrics: {enabled: false}, persistence: {enabled: false}}`} {
			t.Run(chart, func(t *testing.T) { checkFits(t, render(t, chart, values)) })
		}
	}
}

// checkFits: selectors find the pod, Services lead to its ports, volumes exist.
func checkFits(t *testing.T, m manifests) {
	pod, selected := m.pod()
	ports, volumes := map[string]bool{}, map[string]bool{}
	for _, p := range pod.Spec.Containers[0].Ports {
		ports[p.Name] = true
	}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
	}
	for _, mount := range pod.Spec.Containers[0].VolumeMounts {
		if !volumes[mount.Name] {
			t.Errorf("nothing makes the volume %s", mount.Name)
		}
	}
	for _, s := range all[*core.Service](m) {
		for label, value := range s.Spec.Selector {
			if pod.Labels[label] != value || selected[label] != value {
				t.Errorf("service %s selects %s=%s, the pod has %v", s.Name, label, value, pod.Labels)
			}
		}
		for _, p := range s.Spec.Ports {
			if !ports[p.TargetPort.StrVal] || p.Name == "metrics" && s.Spec.Type != core.ServiceTypeClusterIP && s.Spec.Type != "" {
				t.Errorf("service %s, %s, leads to %q of %v, or shows the metrics outside the cluster", s.Name, s.Spec.Type, p.TargetPort.String(), ports)
			}
		}
	}
}

// The configurations are valid and warn of nothing, and a pod has more time to end
// than its service takes.
func TestFull_Configurations(t *testing.T) {
	const bucket = `{config: {storage: {s3: {bucket: images, region: eu-central-1, accesskey: key, secretkey: hunter2}}}}`
	for chart, variants := range map[string][]string{
		"registry": {"{}", bucket, `{ingress: {enabled: true, hosts: [a.example.org]}}`, `{auth: {enabled: false}}`, `{metrics: {enabled: true}}`, `{config: {auth: {htpasswd: {anonymouspull: true}}, slipway: {http: {maxconns: 1000000}}}}`},
		"relay":    {"{}", `{ingress: {enabled: true, hosts: [a.example.org]}}`, `{metrics: {enabled: false}}`, `{config: {http: {trustedproxies: [10.0.0.0/8]}}}`},
	} {
		for _, values := range variants {
			m := render(t, chart, values)
			text := m.config()
			file := harness.Write(t, filepath.Join(t.TempDir(), "config.yml"), text)
			if out, err := harness.CheckConfig(t, harness.Binary(t, chart), file); err != nil || string(out) != "the configuration is valid\n" {
				t.Errorf("%s with %s: %v\n%s", chart, values, err, out)
			}
			var c struct {
				HTTP, Matrix struct{ DrainTimeout, Timeout string }
			}
			if err := yaml.Unmarshal([]byte(text), &c); err != nil {
				t.Fatal(err)
			}
			drain, err := time.ParseDuration(c.HTTP.DrainTimeout)
			logout, _ := time.ParseDuration(c.Matrix.Timeout) // the registry has none
			const preStop, cut = 5 * time.Second, 5 * time.Second
			template, _ := m.pod()
			if got := time.Duration(*template.Spec.TerminationGracePeriodSeconds) * time.Second; err != nil || got <= preStop+cut+drain+logout {
				t.Errorf("%s: %s to end, it may take %s (%v)", chart, got, preStop+cut+drain+logout, err)
			}
		}
	}
}

// An autoscaler, as README.md has it, is alone in setting the number of pods.
func TestFull_Autoscaler(t *testing.T) {
	_, rest, _ := strings.Cut(harness.Read(t, filepath.Join("registry", "README.md")), "```yaml\n")
	values, _, _ := strings.Cut(rest, "```")
	m := render(t, "registry", strings.ReplaceAll("\n"+values, "\n  ", "\n")+"\nconfig: {storage: {s3: {bucket: images, region: eu-central-1}}}\n")
	scaler, deployment := all[*autoscaling.HorizontalPodAutoscaler](m), all[*apps.Deployment](m)
	if len(scaler) != 1 || scaler[0].Spec.ScaleTargetRef.Name != deployment[0].Name || deployment[0].Spec.Replicas != nil {
		t.Errorf("%+v scales %s, which sets %v", scaler, deployment[0].Name, deployment[0].Spec.Replicas)
	}
}

// restricted are the rules of the Pod Security Standard "restricted", a root file
// system that cannot be written, a limit of memory, no token of the API server, and
// none of the variables that Kubernetes makes for Services.
var restricted = []string{
	"runAsNonRoot: true\n", "runAsUser: 65532\n", "runAsGroup: 65532\n", "fsGroup: 65532\n", "seccompProfile:\n          type: RuntimeDefault\n",
	"allowPrivilegeEscalation: false\n", "capabilities:\n              drop:\n              - ALL\n", "readOnlyRootFilesystem: true\n", "!add:",
	"limits:\n              memory: ", "automountServiceAccountToken: false\n", "enableServiceLinks: false\n",
}

// What values change in what is rendered: texts that are in it, and texts, with a
// "!" before them, that are not.
func TestFull_Values(t *testing.T) {
	const many = "replicas: 3, "
	tests := []struct {
		chart, values string
		want          []string
	}{
		{"registry", "{}", restricted},
		{"relay", "{}", restricted},
		// A volume has one pod at a time.
		{"registry", "{}", []string{"type: Recreate", "replicas: 1\n", "!5001", "sleep: {seconds: 5}", "helm.sh/resource-policy: keep", "!PodDisruptionBudget", "!topologySpread"}},
		{"registry", `{persistence: {accessModes: [ReadWriteMany]}}`, []string{"type: Recreate", "- ReadWriteMany"}},
		// What is immutable in a StatefulSet neither depends on values nor stands in the way of a rollback.
		{"relay", "{}", []string{"replicas: 1\n", "podManagementPolicy: Parallel", "!volumeClaimTemplates", "kind: PersistentVolumeClaim", "claimName: relay\n", "helm.sh/resource-policy: keep"}},
		{"relay", `{` + many + `config: {database: {dialect: postgres, host: db}}}`, []string{"replicas: 3\n", "!kind: PersistentVolumeClaim", "!name: data", "kind: PodDisruptionBudget", "topologyKey: kubernetes.io/hostname"}},
		// Behind an Ingress or a Gateway clients keep their addresses, unless the configuration says otherwise.
		{"registry", `{ingress: {enabled: true, hosts: [a.example.org]}}`, []string{"trustedproxies:\n      - 10.0.0.0/8\n", `proxy-body-size: "0"`}},
		{"registry", `{httpRoute: {enabled: true, hostnames: [a.example.org], parentRefs: [{name: web}], trustedProxies: [10.9.0.0/16]}}`, []string{"kind: HTTPRoute", "trustedproxies:\n      - 10.9.0.0/16\n", "request: 0s"}},
		{"relay", `{ingress: {enabled: true, hosts: [a.example.org]}, config: {http: {trustedproxies: [10.8.0.1]}}}`, []string{"trustedproxies:\n      - 10.8.0.1\n", "!10.0.0.0/8", "proxy-body-size: 32m"}},
		{"relay", `{service: {type: LoadBalancer}}`, []string{"externalTrafficPolicy: Local"}},
		// Secrets of the configuration are in a Secret.
		{"registry", `{config: {storage: {s3: {bucket: images, region: eu-central-1, secretkey: hunter2}}}}`, []string{"!kind: ConfigMap", "sizeLimit: 20Gi"}},
		{"registry", `{config: {http: {tls: {certificate: /tls/tls.crt, key: /tls/tls.key, clientcas: [/tls/ca.crt]}}}}`, []string{"command: [registry, health]", "!httpGet"}},
		{"registry", `{podSecurityContext: {runAsUser: null, runAsGroup: null, fsGroup: null}}`, []string{"!65532"}},
		{"registry", `{auth: {enabled: false}, config: {auth: {token: {realm: "https://a.example.org", service: a, issuer: a, rootcertbundle: /a}}}}`, []string{"!htpasswd:"}},
		// On an object store there is no volume, and any number of pods.
		{"registry", `{` + many + `config: {storage: {s3: {bucket: images, region: eu-central-1}}}}`, []string{"replicas: 3\n", "type: RollingUpdate", "mountPath: /tmp", "!filesystem", "!PersistentVolumeClaim", "kind: PodDisruptionBudget", "topologyKey: topology.kubernetes.io/zone"}},
		{"registry", `{replicas: null, config: {storage: {s3: {bucket: images, region: eu-central-1}}}}`, []string{"!replicas:", "type: RollingUpdate", "kind: PodDisruptionBudget", "topologyKey: kubernetes.io/hostname"}},
		{"registry", `{` + many + `config: {storage: {s3aws: {bucket: images, region: eu-central-1}}}}`, []string{"type: RollingUpdate", "mountPath: /tmp", "!filesystem"}},
		{"registry", `{` + many + `config: {storage: {azure: {accountname: a, container: images}}}}`, []string{"type: RollingUpdate", "mountPath: /tmp", "!filesystem"}},
		{"registry", `{` + many + `config: {storage: {gcs: {bucket: images}}}}`, []string{"type: RollingUpdate", "mountPath: /tmp", "!filesystem"}},
		// Claims and secrets that exist are used.
		{"registry", `{persistence: {storageClass: "-"}}`, []string{`storageClassName: ""`}},
		{"registry", `{persistence: {existingClaim: old-images}}`, []string{"claimName: old-images", "!kind: PersistentVolumeClaim"}},
		{"relay", `{persistence: {existingClaim: old-data}}`, []string{"claimName: old-data", "!kind: PersistentVolumeClaim"}},
		{"registry", `{existingSecret: mine}`, []string{"secretName: mine", "!http-secret:"}},
		{"relay", `{secrets: {existingSecret: mine}}`, []string{"secretName: mine", "!admin-password: ", "!checksum/secrets"}},
		{"relay", `{secrets: {login: accesstoken}}`, []string{"RELAY_MATRIX_ACCESSTOKEN_FILE", "matrix-accesstoken: aHVudGVyMg=="}},
		// The login of the values goes under the one of the configuration.
		{"registry", `{config: {auth: {htpasswd: {realm: mine, cachettl: 5m}}}}`, []string{"realm: mine\n", "cachettl: 5m\n", "path: /run/secrets/registry/htpasswd\n"}},
		{"registry", `{auth: {enabled: false}}`, []string{"!htpasswd"}},
		{"registry", `{metrics: {enabled: true}}`, []string{"addr: 0.0.0.0:5001", "port: 5001", "!pprof"}},
		{"registry", `{config: {http: {tls: {certificate: /tls/tls.crt, key: /tls/tls.key}}}}`, []string{"scheme: HTTPS"}},
	}
	for _, tt := range tests {
		out, err := template(t, tt.chart, tt.values)
		if err != nil {
			t.Errorf("%s with %s: %v\n%s", tt.chart, tt.values, err, out)
		}
		for _, text := range tt.want {
			if unwanted, not := strings.CutPrefix(text, "!"); strings.Contains(out, unwanted) == not {
				t.Errorf("%s with %s: want %q in\n%s", tt.chart, tt.values, text, out)
			}
		}
	}
	if out, err := template(t, "registry", "{}", "--kube-version=1.28.0", required["registry"][0]); err != nil || strings.Contains(out, "preStop") {
		t.Errorf("Kubernetes 1.28 knows no sleep before the end: %v", err)
	}
}

// Values that cannot work are refused, with a sentence that describes what to do.
func TestFull_BadValues(t *testing.T) {
	tests := []struct{ chart, values, want string }{
		{"registry", `{metrics: {serviceMonitor: {enabled: true}}}`, "set metrics.enabled"},
		{"registry", `{persistent: {size: 1Gi}}`, "'persistent' not allowed"},
		{"registry", `{persistence: {size: much}}`, "'much' does not match"},
		{"registry", `{service: {port: 70000}}`, "/service/port"},
		{"registry", `{auth: {user: "a:b"}}`, "/auth/user"},
		{"registry", `{replicas: 2}`, "replicas: a volume has one registry at a time"},
		{"registry", `{replicas: 2, persistence: {accessModes: [ReadWriteMany]}}`, "replicas: a volume has one registry at a time"},
		{"registry", `{replicas: null}`, "replicas: a volume has one registry at a time"},
		{"registry", `{replicas: 2, persistence: {enabled: false}}`, "replicas: a volume has one registry at a time"},
		{"registry", `{config: {auth: {token: {realm: "https://a.example.org", service: a, issuer: a, rootcertbundle: /a}}}}`, "auth.enabled: adds a password file"},
		{"registry", `{metrics: {enabled: true}, config: {http: {debug: {addr: "0.0.0.0:6001"}}}}`, "config.http.debug.addr: the Service looks for port 5001"},
		{"registry", `{httpRoute: {enabled: true}}`, "httpRoute: name what clients use in httpRoute.hostnames"},
		// A setting that the service would refuse at its start.
		{"registry", `{config: {storage: {delete: {kep: 1h}}}}`, "'kep' not allowed"},
		{"registry", `{config: {http: {draintimeout: 5}}}`, "/config/http/draintimeout"},
		{"relay", `{config: {matrix: {timeouts: 1m}}}`, "'timeouts' not allowed"},
		{"relay", `{config: {logging: {level: loud}}}`, "/config/logging/level"},
		{"registry", `{ingress: {enabled: true}}`, "ingress.hosts: name what clients use"},
		{"registry", `{auth: {enabled: false, htpasswd: "a:b"}}`, "auth.htpasswd: has no effect"},
		{"registry", `{config: {http: {addr: "0.0.0.0:80"}}}`, "config.http.addr: the Service and the probes look for port 5000"},
		{"relay", `{replicas: 2}`, "replicas: SQLite is for one relay"},
		{"relay", `{secrets: {login: sso}}`, "/secrets/login"},
		{"relay", `{config: {http: {listenaddress: "0.0.0.0:80"}}}`, "config.http.listenaddress: the Service and the probes look for port 8080"},
	}
	for _, tt := range tests {
		if out, err := template(t, tt.chart, tt.values); err == nil || !strings.Contains(out, tt.want) {
			t.Errorf("%s with %s: %v\n%s\nwant: %s", tt.chart, tt.values, err, out, tt.want)
		}
	}
	if out, err := template(t, "registry", "{}", "--set=image.tag=v1"); err == nil || !strings.Contains(out, "image.repository: set it to where you pushed the image") {
		t.Errorf("the registry without a repository: %v\n%s", err, out)
	}
	for i, want := range []string{"image.repository: set it", "config.matrix.homeserver: set it to the homeserver's URL", "", "config.admin.matrixid: set it", "secrets.matrix: set it to the password of the bot's account"} {
		if out, err := template(t, "relay", "{}", slices.Delete(slices.Clone(required["relay"]), i, i+1)...); want != "" && (err == nil || !strings.Contains(out, want)) {
			t.Errorf("the relay without %s: %v\n%s", required["relay"][i], err, out)
		}
	}
}

// An upgrade keeps the random secrets of the installation; another user gets
// another line with the same password, and lines of one's own replace it. What
// helm looks up in a cluster is a file here.
func TestFull_UpgradeKeepsSecrets(t *testing.T) {
	const lookup = `lookup "v1" "Secret" .Release.Namespace $name`
	for _, chart := range charts {
		installed := render(t, chart, "{}")
		first, kept := installed.secret(chart), filepath.Join(t.TempDir(), chart)
		harness.Run(t, "cp", "-r", chart, kept)
		template := filepath.Join(kept, "templates", "secret.yaml")
		text := harness.Read(t, template)
		if !strings.Contains(text, lookup) {
			t.Fatalf("%s: %s looks up another secret than %s", chart, template, first.Name)
		}
		helpers := filepath.Join(kept, "templates", "_helpers.tpl")
		harness.Write(t, template, strings.ReplaceAll(text, lookup, `.Files.Get "stored.json" | fromJson`))
		harness.Write(t, helpers, strings.ReplaceAll(harness.Read(t, helpers), `lookup "v1" "Secret" .Release.Namespace (include "relay.fullname" .)`, `.Files.Get "stored.json" | fromJson`))
		stored, _ := yaml.Marshal(first)
		stored, _ = yaml.YAMLToJSON(stored)
		harness.Write(t, filepath.Join(kept, "stored.json"), string(stored))
		if again := render(t, kept, "{}", required[chart]...).secret(chart).Data; fmt.Sprint(again) != fmt.Sprint(first.Data) {
			t.Errorf("%s: an upgrade changes the secrets from %v to %v", chart, first.Data, again)
		}
		if chart == "relay" {
			continue
		}
		_, hash, _ := strings.Cut(strings.TrimSpace(string(first.Data["htpasswd"])), ":")
		if err := bcrypt.CompareHashAndPassword([]byte(hash), first.Data["password"]); err != nil {
			t.Errorf("the password does not open the registry: %v", err)
		}
		other := render(t, kept, `{auth: {user: root}}`, required[chart]...).secret(chart).Data
		if !strings.HasPrefix(string(other["htpasswd"]), "root:") || string(other["password"]) != string(first.Data["password"]) {
			t.Errorf("another user: %q", other)
		}
		if mine := render(t, kept, `{auth: {htpasswd: "alice:$2y$05$x"}}`, required[chart]...).secret(chart).Data; string(mine["htpasswd"]) != "alice:$2y$05$x\n" || mine["password"] != nil {
			t.Errorf("lines of one's own: %q", mine)
		}
	}
}
