// Package charts_test renders the charts and holds what comes out against the
// types of Kubernetes and the built services.
package charts_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	gateway "sigs.k8s.io/gateway-api/apis/v1"

	"slipway/shared/programtest"
)

var charts = []string{"registry", "relay"}

// required are values that the charts cannot do without.
var required = map[string][]string{"registry": {"--set=image.repository=images.example.org/registry"}, "relay": {
	"--set=image.repository=images.example.org/relay", "--set=config.matrix.homeserver=https://matrix.example.org", "--set=config.matrix.username=@relay:example.org",
	"--set=config.admin.matrixid=@you:example.org", "--set=secrets.matrix=hunter2",
}}

// template runs helm template as for a release that is called like the chart. The
// values lie over the required ones where flags has none of its own.
func template(t *testing.T, chart, values string, flags ...string) (string, error) {
	t.Helper()
	if flags == nil {
		flags = required[chart]
	}
	args := append([]string{"template", filepath.Base(chart), chart, "--namespace=images", "--kube-version=1.34.0", "--values=-"}, flags...)
	cmd := exec.CommandContext(t.Context(), programtest.Tool(t, "helm"), args...)
	cmd.Stdin = strings.NewReader(values)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		out = exit.Stderr
	}
	return string(out), err
}

// manifests are the objects that a chart made.
type manifests []runtime.Object

// render renders a chart. Each object is read strictly: a field that Kubernetes
// does not know fails the test.
func render(t *testing.T, chart, values string, flags ...string) (m manifests) {
	t.Helper()
	out, err := template(t, chart, values, flags...)
	if err != nil {
		t.Fatalf("helm template %s with %s: %v\n%s", chart, values, err, out)
	}
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(apps.AddToScheme, autoscaling.AddToScheme, core.AddToScheme, networking.AddToScheme, policy.AddToScheme, monitoring.AddToScheme, gateway.Install)
	if err := builder.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	for document := range strings.SplitSeq(out, "\n---\n") {
		if !strings.Contains(document, "kind: ") {
			continue
		}
		object, _, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("%s with %s: %v in\n%s", chart, values, err, document)
		}
		m = append(m, object)
	}
	return m
}

// all are the objects of one type.
func all[T runtime.Object](m manifests) (found []T) {
	for _, object := range m {
		if o, ok := object.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// pod is the pod that the chart's workload makes, and the labels it selects.
func (m manifests) pod() (core.PodTemplateSpec, map[string]string) {
	if d := all[*apps.Deployment](m); d != nil {
		return d[0].Spec.Template, d[0].Spec.Selector.MatchLabels
	}
	s := all[*apps.StatefulSet](m)[0].Spec
	return s.Template, s.Selector.MatchLabels
}

// secret is the Secret with that name that a chart made.
func (m manifests) secret(name string) *core.Secret {
	secrets := all[*core.Secret](m)
	return secrets[slices.IndexFunc(secrets, func(s *core.Secret) bool { return s.Name == name })]
}

// config is the configuration that the service reads.
func (m manifests) config() string {
	for _, s := range all[*core.Secret](m) {
		if text := s.StringData["config.yml"]; text != "" {
			return text
		}
	}
	return ""
}
