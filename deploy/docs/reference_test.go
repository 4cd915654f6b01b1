package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/deploy/internal/harness"
	"slipway/shared/programtest"
)

// TestReference: the pages with all settings are what the programs say, and say
// something of each.
func TestReference(t *testing.T) {
	for _, service := range []string{"registry", "relay"} {
		want := harness.Run(t, harness.Binary(t, service), "config", "reference")
		name := filepath.Join("docs", "configuration", service+".md")
		if got, err := os.ReadFile(filepath.Join(programtest.Root(t), name)); err != nil || string(got) != want {
			t.Errorf("%s is not what `%s config reference` says (%v): run make docs", name, service, err)
		}
		rows := 0
		for line := range strings.SplitSeq(want, "\n") {
			if strings.HasPrefix(line, "| `") {
				rows++
			}
			if strings.HasSuffix(line, "|  |") {
				t.Errorf("%s: a setting without a meaning, give it a doc tag: %s", name, line)
			}
		}
		if rows < 30 {
			t.Errorf("%s has %d settings only", name, rows)
		}
	}
}
