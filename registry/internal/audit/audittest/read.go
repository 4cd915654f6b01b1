// Package audittest reads audit logs in tests.
package audittest

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"slipway/registry/internal/audit"
)

// Read returns the lines of the audit log at path.
func Read(t testing.TB, path string) (all []audit.Record) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(content) {
		var r audit.Record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, r)
	}
	return all
}
