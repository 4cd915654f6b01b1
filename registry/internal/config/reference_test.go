package config

import (
	"bytes"
	"os"
	"testing"

	"slipway/shared/config"
)

// TestReferenceIsCurrent: the page in docs/ is what the structs say.
func TestReferenceIsCurrent(t *testing.T) {
	var want bytes.Buffer
	if err := Reference(&want); err != nil {
		t.Fatal(err)
	}
	const page = "../../../docs/configuration/registry.md"
	if got, err := os.ReadFile(page); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s is not what the settings are (%v): run make docs", page, err)
	}
}

// TestReferenceSaysSomething: no setting without a meaning.
func TestReferenceSaysSomething(t *testing.T) {
	defaults := Default()
	for _, leaf := range config.Walk(&defaults, Prefix) {
		if leaf.Doc == "" {
			t.Errorf("%s has no doc tag", leaf.Path)
		}
	}
}
