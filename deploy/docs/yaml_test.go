package docs_test

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"slipway/deploy/internal/harness"
	"slipway/shared/programtest"
)

// what a part of a configuration is laid over
var whole = map[string]string{
	"registry": "version: 0.1\nstorage: {filesystem: {rootdirectory: /var/lib/registry}}\n",
	"relay": "matrix: {homeserver: 'https://matrix.example.org', username: '@bot:example.org', password: x}\n" +
		"admin: {password: x, matrixid: '@you:example.org'}\n",
}

var secretFile = regexp.MustCompile(`(\w+_file: )[^\s,}]+`)

// TestYAML: each configuration shown is one that the service takes, whole or
// laid over the least that it needs.
func TestYAML(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("a long secret text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang != "yaml" && b.lang != "yml" {
				continue
			}
			switch {
			case strings.HasPrefix(b.note, "not checked: "):
			case b.note == "a workflow of GitHub":
				lintWorkflow(t, b)
			default:
				b.text = secretFile.ReplaceAllString(b.text, "${1}"+secret)
				checkConfiguration(t, b)
			}
		}
	}
}

func lintWorkflow(t *testing.T, b block) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), programtest.Tool(t, "actionlint"), "-shellcheck=", "-")
	cmd.Stdin = strings.NewReader(b.text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s:%d: %v\n%s", b.page, b.line, err, out)
	}
}

func checkConfiguration(t *testing.T, b block) {
	t.Helper()
	var given map[string]any
	if err := yaml.Unmarshal([]byte(b.text), &given); err != nil {
		t.Errorf("%s:%d: %v", b.page, b.line, err)
		return
	}
	service := serviceOf(given)
	var base map[string]any
	if err := yaml.Unmarshal([]byte(whole[service]), &base); err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(merge(base, given))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "config.yml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), harness.Binary(t, service), harness.ConfigCheck(service, file)...)
	cmd.Env = []string{"MATRIX_PASSWORD=bot", "ADMIN_PASSWORD=administrator"}
	if out, err := cmd.CombinedOutput(); err != nil || bytes.Contains(out, []byte("warning:")) {
		t.Errorf("%s:%d: %s takes it not: %v\n%s", b.page, b.line, service, err, out)
	}
}

// serviceOf tells whose keys these are; the registry is asked when in doubt.
func serviceOf(given map[string]any) string {
	for _, key := range []string{"matrix", "admin", "database", "delivery", "limits", "history", "security", "formatting", "metrics", "logging"} {
		if _, ok := given[key]; ok {
			return "relay"
		}
	}
	if http, ok := given["http"].(map[string]any); ok && given["storage"] == nil && (http["listenaddress"] != nil || http["publicurl"] != nil || http["trustedproxies"] != nil) {
		return "relay"
	}
	return "registry"
}

// merge lays over on base, section by section. Another driver than the one
// below takes its place.
func merge(base, over map[string]any) map[string]any {
	out := maps.Clone(base)
	for key, value := range over {
		below, deeper := out[key].(map[string]any)
		if section, ok := value.(map[string]any); ok && deeper {
			for _, driver := range []string{"inmemory", "s3", "azure", "gcs"} {
				if section[driver] != nil {
					delete(below, "filesystem")
				}
			}
			out[key] = merge(below, section)
		} else {
			out[key] = value
		}
	}
	return out
}
