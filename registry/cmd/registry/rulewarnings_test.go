package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// `config check` names callers that cannot exist, misspelled ones most often, and rules that
// an earlier one leaves without effect.
func TestConfigCheck_RulesWithoutEffect(t *testing.T) {
	path := accessConfig(t, `access:
  rules:
  - {who: ['robot:ci', 'robot:cy', 'workload:web', 'workload:wep', 'cert:build'], repositories: ['**'], allow: [push]}
  - {who: [users], repositories: ['**'], allow: [pull]}
  - {who: [bob], repositories: ['secret/**'], deny: [pull]}
  - {who: ['oidc-group:devs'], repositories: ['**'], allow: [push]}
`)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	service := "auth: {service: {builtin: {workloads: [{name: web, issuer: 'https://ci.example.org', audience: r, claims: {sub: a}, repositories: [a], allow: [pull]}]}}, "
	if err := os.WriteFile(path, bytes.Replace(text, []byte("auth: {"), []byte(service), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	do := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if code := run(t.Context(), append(args, "--config", path), nil, &out, &out); code != 0 {
			t.Fatalf("%v: %d\n%s", args, code, &out)
		}
		return out.String()
	}
	do("robot", "create", "ci")
	if list := do("robot", "list"); !strings.Contains(list, "ci    by rules      by rules") {
		t.Errorf("a robot that only rules name:\n%s", list)
	}
	got := do("config", "check")
	for _, want := range []string{
		"access: rules name robot:cy, which the storage does not have",
		"access: rules name workload:wep, which is not in auth.service.builtin.workloads",
		"access: rules name cert:build, but client certificates count only if http.tls.clientcas is set",
		"access: rules name oidc-group:devs, but only auth.oidc with a groupsclaim gives people groups",
		"access: rules[2] (bob in secret/**: deny pull) never denies pull, because rules[1] (users in **: allow pull) allows it before: move it up",
	} {
		if !strings.Contains(got, "warning: "+want) {
			t.Errorf("no warning %q in\n%s", want, got)
		}
	}
}

// What a setting prevents is not explained as allowed.
func TestExplain_DisabledDeletion(t *testing.T) {
	path := accessConfig(t, "access: {rules: [{who: [alice], repositories: ['**'], allow: [admin]}]}\n")
	explain := func(right string) string {
		t.Helper()
		var out bytes.Buffer
		if code := run(t.Context(), []string{"access", "explain", "alice", "a", right, "-c", path}, nil, &out, &out); code != 0 && code != 3 {
			t.Fatalf("%d\n%s", code, &out)
		}
		return out.String()
	}
	if got := explain("delete"); !strings.HasPrefix(got, "allowed by rules[0]") {
		t.Errorf("with storage.delete: %s", got)
	}
	t.Setenv("REGISTRY_STORAGE_DELETE_ENABLED", "false")
	if got := explain("delete"); !strings.HasPrefix(got, "denied to everybody by storage.delete.enabled, which is not set; the rules have it allowed by rules[0]") {
		t.Errorf("without: %s", got)
	}
	t.Setenv("REGISTRY_PROXY_UPSTREAMS", "[{prefix: a, remoteurl: 'http://127.0.0.1:1'}]")
	if got := explain("push"); !strings.HasPrefix(got, "allowed by rules[0]") {
		t.Errorf("beside a cache: %s", got)
	}
	t.Setenv("REGISTRY_PROXY_UPSTREAMS", "[{remoteurl: 'http://127.0.0.1:1'}]")
	if got := explain("push"); !strings.HasPrefix(got, "denied to everybody by proxy, as the repository is a cache; the rules have it allowed by rules[0]") {
		t.Errorf("in a cache: %s", got)
	}
	t.Setenv("REGISTRY_STORAGE_MAINTENANCE_READONLY_ENABLED", "true")
	if got := explain("push"); !strings.HasPrefix(got, "denied to everybody by storage.maintenance.readonly.enabled") {
		t.Errorf("read-only: %s", got)
	}
	if got := explain("pull"); !strings.HasPrefix(got, "allowed by rules[0]") {
		t.Errorf("pulls: %s", got)
	}
}
