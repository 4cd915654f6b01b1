package config

import (
	"strings"
	"testing"
)

// A file that an editor has emptied, or not yet filled, is a broken edit: it does not
// replace rules that let somebody in.
func TestLoadAccess_NoRules(t *testing.T) {
	for _, content := range []string{"", "rules:\n", "rules: []\n", "groups: {a: [b]}\n"} {
		if _, err := LoadAccess("access.yml", []byte(content)); err == nil || !strings.Contains(err.Error(), "has no rules") {
			t.Errorf("%q: %v", content, err)
		}
	}
	if _, err := LoadAccess("access.yml", []byte("rules: [{who: [users], repositories: [a], allow: [pull]}]")); err != nil {
		t.Error(err)
	}
}
