package clients

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
)

// A Helm chart is an OCI artifact like any other.
func TestFull_Helm(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "htpasswd")
	harness.WriteUser(t, file, "ada", "secret")
	addr := harness.StartRegistry(t, filepath.Join(dir, "root"), "REGISTRY_AUTH_HTPASSWD_REALM=basic-realm", "REGISTRY_AUTH_HTPASSWD_PATH="+file).Addr
	helm := func(args ...string) (string, error) {
		return harness.TryTool(t, []string{"HOME=" + dir, "HELM_REGISTRY_CONFIG=" + filepath.Join(dir, "login.json")}, "helm", args...)
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := helm(args...)
		if err != nil {
			t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}

	must("create", filepath.Join(dir, "hello"))
	must("package", filepath.Join(dir, "hello"), "--version", "1.2.3+build.7", "-d", dir)
	packed := filepath.Join(dir, "hello-1.2.3+build.7.tgz")
	if out, err := helm("push", "--plain-http", packed, "oci://"+addr+"/charts"); err == nil {
		t.Errorf("helm push without a login: %s", out)
	}
	must("registry", "login", "--plain-http", "-u", "ada", "-p", "secret", addr)
	pushed := must("push", "--plain-http", packed, "oci://"+addr+"/charts")

	back := filepath.Join(dir, "back")
	if err := os.Mkdir(back, 0o755); err != nil {
		t.Fatal(err)
	}
	// helm writes + as _ in tags, and finds the newest version by the list.
	pulled := must("pull", "--plain-http", "oci://"+addr+"/charts/hello", "--version", ">=1.0.0", "-d", back)
	want, err := os.ReadFile(packed)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(back, "hello-1.2.3+build.7.tgz")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("helm pulled %d bytes (%v), pushed %d\n%s%s", len(got), err, len(want), pushed, pulled)
	}
	if out := must("show", "chart", "--plain-http", "oci://"+addr+"/charts/hello", "--version", "1.2.3+build.7"); !strings.Contains(out, "name: hello") {
		t.Errorf("helm show chart: %s", out)
	}
	if out := must("template", "--plain-http", "x", "oci://"+addr+"/charts/hello"); !strings.Contains(out, "kind: Deployment") {
		t.Errorf("helm template from the registry: %s", out)
	}
}
