package doctest_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"slipway/shared/programtest"
	"slipway/tools/harness"
)

// least is the configuration over which a part is laid.
var least = map[string]string{
	"registry": "version: 0.1\nstorage: {filesystem: {rootdirectory: /var/lib/registry}}\n",
	"relay": "matrix: {homeserver: 'https://matrix.example.org', username: '@bot:example.org', password: x}\n" +
		"admin: {password: x, matrixid: '@you:example.org'}\n",
}

var secretFile = regexp.MustCompile(`(\w+_file: )[^\s,}]+`)

// TestYAML: one of the services takes each configuration that is shown, whole or
// laid over the least that it needs; GitHub takes the workflows, systemd the units.
func TestYAML(t *testing.T) {
	secret := harness.Write(t, filepath.Join(t.TempDir(), "secret"), "a long secret text, as long as a pickle key")
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			at := fmt.Sprintf("%s:%d", b.page, b.line)
			switch {
			case b.lang == "ini":
				if !strings.Contains(b.text, "\nExecStart=") {
					b.text += "[Service]\nExecStart=/bin/true\n"
				}
				unit := harness.Write(t, filepath.Join(t.TempDir(), "example@.service"), b.text)
				if out := harness.Run(t, "systemd-analyze", "verify", "--man=no", unit); out != "" {
					t.Errorf("%s: %s", at, out)
				}
			case b.lang != "yaml" && b.lang != "yml", strings.HasPrefix(b.note, "not checked: "):
			case b.note == "a workflow of GitHub":
				harness.Run(t, "actionlint", "-shellcheck=", harness.Write(t, filepath.Join(t.TempDir(), "workflow.yml"), b.text))
			default:
				text := []byte(secretFile.ReplaceAllString(b.text, "${1}"+secret))
				registry, ok := takes(t, "registry", text)
				if relay, okToo := takes(t, "relay", text); !ok && !okToo {
					t.Errorf("%s: registry config check: %s\nrelay config check: %s", at, registry, relay)
				}
			}
		}
	}
}

// takes reports whether a service takes a configuration without a warning, and what it says.
func takes(t *testing.T, service string, text []byte) (string, bool) {
	t.Helper()
	all := map[string]any{}
	for _, part := range [][]byte{[]byte(least[service]), text} {
		var over map[string]any
		if err := yaml.Unmarshal(part, &over); err != nil {
			return err.Error(), false
		}
		lay(all, over)
	}
	whole, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	out, err := harness.CheckConfig(t, harness.Binary(t, service), harness.Write(t, filepath.Join(t.TempDir(), "config.yml"), string(whole)))
	return string(out), err == nil && !bytes.Contains(out, []byte("warning:"))
}

// lay puts sections over those below, and another storage driver in the place of the one below.
func lay(below, over map[string]any) {
	for key, value := range over {
		section, ok := value.(map[string]any)
		under, deeper := below[key].(map[string]any)
		if !ok || !deeper {
			below[key] = value
			continue
		}
		for _, driver := range []string{"inmemory", "s3", "azure", "gcs"} {
			if section[driver] != nil {
				delete(under, "filesystem")
			}
		}
		lay(under, section)
	}
}

// TestReference: the pages with all settings and all commands are what the programs print, and
// each setting is described.
func TestReference(t *testing.T) {
	for service := range least {
		want := harness.Run(t, harness.Binary(t, service), "config", "reference")
		name := filepath.Join("docs", "configuration", service+".md")
		if harness.Read(t, filepath.Join(programtest.Root(t), name)) != want {
			t.Errorf("%s is not what `%s config reference` prints: run make docs", name, service)
		}
		if regexp.MustCompile("(?m)^- <a [^`]*`[^`]*`( \\(.*\\))?$").MatchString(want) || strings.Count(want, "\n- <a id=") < 30 {
			t.Errorf("%s: a setting without a description (give it a doc tag), or too few settings", name)
		}
		name = filepath.Join("docs", "reference", service+"-commands.md")
		if harness.Read(t, filepath.Join(programtest.Root(t), name)) != harness.Run(t, harness.Binary(t, service), "manual") {
			t.Errorf("%s is not what `%s manual` prints: run make docs", name, service)
		}
	}
}
