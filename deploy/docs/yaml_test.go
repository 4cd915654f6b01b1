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

// least is what a part of a configuration is laid over.
var least = map[string]string{
	"registry": "version: 0.1\nstorage: {filesystem: {rootdirectory: /var/lib/registry}}\n",
	"relay": "matrix: {homeserver: 'https://matrix.example.org', username: '@bot:example.org', password: x}\n" +
		"admin: {password: x, matrixid: '@you:example.org'}\n",
}

var secretFile = regexp.MustCompile(`(\w+_file: )[^\s,}]+`)

// TestYAML: the services take each configuration that is shown, whole or laid
// over the least that they need.
func TestYAML(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("a long secret text, as long as a pickle key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			switch {
			case b.lang != "yaml" && b.lang != "yml", strings.HasPrefix(b.note, "not checked: "):
			case b.note == "a workflow of GitHub":
				lint := exec.CommandContext(t.Context(), programtest.Tool(t, "actionlint"), "-shellcheck=", "-")
				lint.Stdin = strings.NewReader(b.text)
				if out, err := lint.CombinedOutput(); err != nil {
					t.Errorf("%s:%d: %v\n%s", b.page, b.line, err, out)
				}
			default:
				b.text = secretFile.ReplaceAllString(b.text, "${1}"+secret)
				checkConfiguration(t, b)
			}
		}
	}
}

func checkConfiguration(t *testing.T, b block) {
	t.Helper()
	var given, base map[string]any
	if err := yaml.Unmarshal([]byte(b.text), &given); err != nil {
		t.Errorf("%s:%d: %v", b.page, b.line, err)
		return
	}
	service := serviceOf(given)
	if err := yaml.Unmarshal([]byte(least[service]), &base); err != nil {
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
	if out, err := harness.CheckConfig(t, harness.Binary(t, service), file); err != nil || bytes.Contains(out, []byte("warning:")) {
		t.Errorf("%s:%d: %s config check: %v\n%s", b.page, b.line, service, err, out)
	}
}

// serviceOf tells whose keys these are; in doubt they are the registry's.
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

// merge lays over on base, section by section. Another storage driver takes the
// place of the one below.
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

// TestReference: the pages with all settings are what the programs print, and
// each setting is described.
func TestReference(t *testing.T) {
	for service := range least {
		want := harness.Run(t, harness.Binary(t, service), "config", "reference")
		name := filepath.Join("docs", "configuration", service+".md")
		if got, err := os.ReadFile(filepath.Join(programtest.Root(t), name)); err != nil || string(got) != want {
			t.Errorf("%s is not what `%s config reference` prints (%v): run make docs", name, service, err)
		}
		if strings.Contains(want, "|  |\n") || strings.Count(want, "\n| `") < 30 {
			t.Errorf("%s: a setting without a description (give it a doc tag), or too few settings", name)
		}
	}
}
