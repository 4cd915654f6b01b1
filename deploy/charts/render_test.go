// Package charts_test renders the charts and holds what comes out against the
// types of Kubernetes and the built services.
package charts_test

import (
	"os/exec"
	"reflect"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"slipway/shared/programtest"
)

// manifests is what a chart made, by kind.
type manifests struct {
	Deployments     []apps.Deployment
	StatefulSets    []apps.StatefulSet
	Services        []core.Service
	ConfigMaps      []core.ConfigMap
	Secrets         []core.Secret
	Claims          []core.PersistentVolumeClaim
	Ingresses       []networking.Ingress
	NetworkPolicies []networking.NetworkPolicy
	Budgets         []policy.PodDisruptionBudget
	Monitors        []monitoring.ServiceMonitor
	Rules           []monitoring.PrometheusRule
}

// of is the list that objects of a kind go to.
func (m *manifests) of(kind string) any {
	switch kind {
	case "apps/v1 Deployment":
		return &m.Deployments
	case "apps/v1 StatefulSet":
		return &m.StatefulSets
	case "v1 Service":
		return &m.Services
	case "v1 ConfigMap":
		return &m.ConfigMaps
	case "v1 Secret":
		return &m.Secrets
	case "v1 PersistentVolumeClaim":
		return &m.Claims
	case "networking.k8s.io/v1 Ingress":
		return &m.Ingresses
	case "networking.k8s.io/v1 NetworkPolicy":
		return &m.NetworkPolicies
	case "policy/v1 PodDisruptionBudget":
		return &m.Budgets
	case "monitoring.coreos.com/v1 ServiceMonitor":
		return &m.Monitors
	case "monitoring.coreos.com/v1 PrometheusRule":
		return &m.Rules
	}
	return nil
}

// requiredValues are what each chart cannot do without.
var requiredValues = map[string]string{
	"registry": `{}`,
	"relay": `
config:
  matrix: {homeserver: "https://matrix.example.org", username: "@relay:example.org"}
  admin: {matrixid: "@you:example.org"}
secrets: {matrix: hunter2}
`,
}

// render renders a chart with values laid over the required ones. Each object is
// read strictly: a field that Kubernetes does not know fails the test.
func render(t *testing.T, chart, values string) *manifests {
	t.Helper()
	out, err := template(t, chart, values)
	if err != nil {
		t.Fatalf("helm template %s: %v\n%s", chart, err, out)
	}
	return decode(t, out)
}

// template runs helm template as for a release that is called like the chart.
func template(t *testing.T, chart, values string, flags ...string) (string, error) {
	t.Helper()
	args := append([]string{"template", chart, chart, "--namespace", "images", "--kube-version", "1.34.0", "--values", "-"}, flags...)
	cmd := exec.CommandContext(t.Context(), programtest.Tool(t, "helm"), args...)
	cmd.Stdin = strings.NewReader(merge(t, requiredValues[chart], values))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return stderr.String(), err
	}
	return string(out), nil
}

func decode(t *testing.T, text string) *manifests {
	t.Helper()
	m := new(manifests)
	for document := range strings.SplitSeq(text, "\n---\n") {
		var head struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if head.Kind == "" {
			continue
		}
		list := m.of(head.APIVersion + " " + head.Kind)
		if list == nil {
			t.Fatalf("nobody looks at a %s %s", head.APIVersion, head.Kind)
		}
		all := reflect.ValueOf(list).Elem()
		one := reflect.New(all.Type().Elem())
		if err := yaml.UnmarshalStrict([]byte(document), one.Interface()); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		all.Set(reflect.Append(all, one.Elem()))
	}
	return m
}

// merge lays values over others, as helm does.
func merge(t *testing.T, under, over string) string {
	t.Helper()
	var a, b map[string]any
	if err := yaml.Unmarshal([]byte(under), &a); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(over), &b); err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(lay(a, b))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func lay(under, over map[string]any) map[string]any {
	if under == nil {
		under = map[string]any{}
	}
	for key, value := range over {
		inner, isMap := value.(map[string]any)
		below, wasMap := under[key].(map[string]any)
		if isMap && wasMap {
			value = lay(below, inner)
		}
		under[key] = value
	}
	return under
}

// pod is the pod that the chart's workload makes, and the labels it selects.
func (m *manifests) pod(t *testing.T) (core.PodTemplateSpec, map[string]string) {
	t.Helper()
	switch {
	case len(m.Deployments) == 1 && len(m.StatefulSets) == 0:
		return m.Deployments[0].Spec.Template, m.Deployments[0].Spec.Selector.MatchLabels
	case len(m.StatefulSets) == 1 && len(m.Deployments) == 0:
		return m.StatefulSets[0].Spec.Template, m.StatefulSets[0].Spec.Selector.MatchLabels
	}
	t.Fatalf("%d deployments, %d stateful sets", len(m.Deployments), len(m.StatefulSets))
	return core.PodTemplateSpec{}, nil
}
