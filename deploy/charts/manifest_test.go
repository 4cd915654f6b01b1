package charts_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"slipway/deploy/internal/harness"
)

var charts = []string{"registry", "relay"}

// everything turns on all that a chart can make.
const everything = `
ingress:
  enabled: true
  className: nginx
  hosts: [images.example.org]
  tls: [{secretName: images-tls, hosts: [images.example.org]}]
service: {type: LoadBalancer, nodePort: 30500}
podDisruptionBudget: {enabled: true}
metrics:
  serviceMonitor: {enabled: true, labels: {release: prometheus}}
  prometheusRule: {enabled: true}
networkPolicy:
  enabled: true
  from: [{podSelector: {}}]
  metricsFrom: [{namespaceSelector: {matchLabels: {name: monitoring}}}]
persistence: {storageClass: fast, annotations: {a: b}}
image: {digest: "sha256:0123"}
imagePullSecrets: [{name: login}]
env: [{name: TZ, value: UTC}]
volumes: [{name: more, emptyDir: {}}]
volumeMounts: [{name: more, mountPath: /more}]
serviceAccountName: images
priorityClassName: high
podAnnotations: {a: b}
podLabels: {a: b}
nodeSelector: {disk: fast}
tolerations: [{key: disk, operator: Exists}]
affinity: {nodeAffinity: {}}
`

// helm finds nothing to complain of, with few values and with all.
func TestLint(t *testing.T) {
	for _, chart := range charts {
		harness.Run(t, "helm", "lint", "--strict", chart)
	}
}

// Whatever is rendered, Kubernetes knows every field of it, and the parts fit
// together: selectors find the pod, ports, volumes and names exist.
func TestManifestsFitTogether(t *testing.T) {
	for _, chart := range charts {
		for name, values := range map[string]string{"few": "{}", "all": everything, "without": `{metrics: {enabled: false}, persistence: {enabled: false}}`} {
			t.Run(chart+"/"+name, func(t *testing.T) {
				m := render(t, chart, values)
				template, selected := m.pod(t)
				if !within(selected, template.Labels) {
					t.Errorf("the workload selects %v, its pod has %v", selected, template.Labels)
				}
				ports := checkContainer(t, template.Spec)
				checkServices(t, m, template.Labels, ports)
				checkPolicies(t, m, template.Labels, ports)
				checkVolumes(t, m, template.Spec)
			})
		}
	}
}

func checkContainer(t *testing.T, pod core.PodSpec) (ports []string) {
	t.Helper()
	c := pod.Containers[0]
	for _, p := range c.Ports {
		ports = append(ports, p.Name)
	}
	for _, probe := range []*core.Probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe} {
		if probe == nil {
			t.Fatal("a probe is missing")
		}
		port := intstr.IntOrString{}
		switch {
		case probe.HTTPGet != nil:
			port = probe.HTTPGet.Port
		case probe.TCPSocket != nil:
			port = probe.TCPSocket.Port
		}
		if !slices.Contains(ports, port.StrVal) {
			t.Errorf("a probe asks port %q of %v", port.String(), ports)
		}
	}
	return ports
}

func checkServices(t *testing.T, m *manifests, labels map[string]string, ports []string) {
	t.Helper()
	served := map[string][]string{}
	for _, s := range m.Services {
		if problems := validation.IsDNS1035Label(s.Name); problems != nil {
			t.Errorf("service %q: %v", s.Name, problems)
		}
		if !within(s.Spec.Selector, labels) {
			t.Errorf("service %s selects %v, the pod has %v", s.Name, s.Spec.Selector, labels)
		}
		for _, p := range s.Spec.Ports {
			served[s.Name] = append(served[s.Name], p.Name)
			if !slices.Contains(ports, p.TargetPort.StrVal) {
				t.Errorf("service %s leads to port %q of %v", s.Name, p.TargetPort.String(), ports)
			}
			if p.Name == "metrics" && s.Spec.Type != core.ServiceTypeClusterIP && s.Spec.Type != "" {
				t.Errorf("service %s shows the metrics outside the cluster", s.Name)
			}
		}
	}
	for _, i := range m.Ingresses {
		to := i.Spec.Rules[0].HTTP.Paths[0].Backend.Service
		if !slices.Contains(served[to.Name], to.Port.Name) {
			t.Errorf("the ingress leads to %s of %s", to.Port.Name, to.Name)
		}
	}
	for _, monitor := range m.Monitors {
		found := false
		for _, s := range m.Services {
			found = found || within(monitor.Spec.Selector.MatchLabels, s.Labels) && slices.Contains(served[s.Name], monitor.Spec.Endpoints[0].Port)
		}
		if !found {
			t.Error("the ServiceMonitor finds no port")
		}
	}
}

func checkPolicies(t *testing.T, m *manifests, labels map[string]string, ports []string) {
	t.Helper()
	for _, p := range m.NetworkPolicies {
		if !within(p.Spec.PodSelector.MatchLabels, labels) {
			t.Errorf("the NetworkPolicy selects %v", p.Spec.PodSelector.MatchLabels)
		}
		for _, rule := range p.Spec.Ingress {
			if !slices.Contains(ports, rule.Ports[0].Port.StrVal) {
				t.Errorf("the NetworkPolicy opens %s of %v", rule.Ports[0].Port, ports)
			}
		}
	}
	for _, b := range m.Budgets {
		if !within(b.Spec.Selector.MatchLabels, labels) {
			t.Errorf("the PodDisruptionBudget selects %v", b.Spec.Selector.MatchLabels)
		}
	}
}

func checkVolumes(t *testing.T, m *manifests, pod core.PodSpec) {
	t.Helper()
	made := map[string]bool{}
	for _, s := range m.StatefulSets {
		for _, c := range s.Spec.VolumeClaimTemplates {
			made[c.Name] = true
		}
	}
	for _, v := range pod.Volumes {
		made[v.Name] = true
		switch {
		case v.ConfigMap != nil && v.ConfigMap.Name != m.ConfigMaps[0].Name:
			t.Errorf("volume %s is of config map %s", v.Name, v.ConfigMap.Name)
		case v.Secret != nil && v.Secret.SecretName != m.Secrets[0].Name:
			t.Errorf("volume %s is of secret %s", v.Name, v.Secret.SecretName)
		case v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName != m.Claims[0].Name:
			t.Errorf("volume %s is of claim %s", v.Name, v.PersistentVolumeClaim.ClaimName)
		}
	}
	for _, mount := range pod.Containers[0].VolumeMounts {
		if !made[mount.Name] {
			t.Errorf("nothing makes the volume %s", mount.Name)
		}
		delete(made, mount.Name)
	}
	if len(made) > 0 {
		t.Errorf("volumes that are not mounted: %v", made)
	}
}

// The pods keep the rules of the Pod Security Standard "restricted", have a root
// file system that cannot be written, no token of the API server, and none of the
// variables that Kubernetes makes for Services.
func TestPodsAreRestricted(t *testing.T) {
	for _, chart := range charts {
		template, _ := render(t, chart, "{}").pod(t)
		pod := template.Spec
		p, c := pod.SecurityContext, pod.Containers[0].SecurityContext
		for what, holds := range map[string]bool{
			"no service links":          pod.EnableServiceLinks != nil && !*pod.EnableServiceLinks,
			"no token":                  pod.AutomountServiceAccountToken != nil && !*pod.AutomountServiceAccountToken,
			"not root":                  *p.RunAsNonRoot && *p.RunAsUser == 65532 && *p.RunAsGroup == 65532 && *p.FSGroup == 65532,
			"seccomp":                   p.SeccompProfile.Type == core.SeccompProfileTypeRuntimeDefault,
			"no escalation":             !*c.AllowPrivilegeEscalation,
			"read-only root":            *c.ReadOnlyRootFilesystem,
			"no capabilities":           slices.Equal(c.Capabilities.Drop, []core.Capability{"ALL"}) && len(c.Capabilities.Add) == 0,
			"a limit of memory":         !pod.Containers[0].Resources.Limits.Memory().IsZero(),
			"secrets for the pod alone": *secretVolume(pod).DefaultMode == 0o440,
		} {
			if !holds {
				t.Errorf("%s: %s does not hold", chart, what)
			}
		}
	}
}

func secretVolume(pod core.PodSpec) *core.SecretVolumeSource {
	for _, v := range pod.Volumes {
		if v.Secret != nil {
			return v.Secret
		}
	}
	return nil
}

// within tells whether all labels of a selector are there.
func within(selector, labels map[string]string) bool {
	for name, value := range selector {
		if labels[name] != value {
			return false
		}
	}
	return len(selector) > 0
}

// The pods are what the images are made for: their user, their command, their
// volume.
func TestPodsFitImages(t *testing.T) {
	for chart, volume := range map[string]string{"registry": "/var/lib/registry", "relay": "/data"} {
		text, err := os.ReadFile(filepath.Join("..", "..", chart, "Dockerfile"))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{`ENTRYPOINT ["` + chart + `"]`, "USER 65532:65532", `VOLUME ["` + volume + `"]`} {
			if !strings.Contains(string(text), "\n"+line+"\n") {
				t.Errorf("%s/Dockerfile has no line %s", chart, line)
			}
		}
		template, _ := render(t, chart, "{}").pod(t)
		c := template.Spec.Containers[0]
		if c.Args[0] != "serve" || c.Command != nil || !slices.ContainsFunc(c.VolumeMounts, func(m core.VolumeMount) bool { return m.MountPath == volume }) {
			t.Errorf("%s: %v %v with %v", chart, c.Command, c.Args, c.VolumeMounts)
		}
	}
}
