//go:build manpages

package command_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/shared/command"
)

func TestManual_WritesAPageForEachCommand(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1767323045")
	dir := t.TempDir()
	var out, errout bytes.Buffer
	if code := command.Run(t.Context(), program(&out, &errout), []string{"manual", dir}); code != 0 {
		t.Fatalf("%d: %s", code, &errout)
	}
	for page, want := range map[string]string{"boat.1": "Carry things", "boat-carry.1": "boat carry --far stone", "boat-config-check.1": `"Jan 2026" "Slipway v1.2.3"`} {
		text, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s does not say %q: %v\n%s", page, want, err, text)
		}
	}
	if pages, _ := filepath.Glob(filepath.Join(dir, "*manual*")); len(pages) > 0 {
		t.Errorf("hidden commands have pages: %v", pages)
	}
}
