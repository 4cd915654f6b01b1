package config

import (
	"slices"
	"strings"
	"testing"

	"slipway/shared/config"
)

const wrongRules = `groups:
  ops: [everyone]
rules:
- who: [alice]
  repositories: ["**"]
  allow: [pull]
- who: [group:none, everyone]
  repositories: ["a[", "B"]
  allow: [pull]
  deny: [pull]
- repositories: ["c["]
  allow: [fly]
`

// wrongAt are the rules' errors, each with the line of wrongRules that it names.
var wrongAt = []string{
	`rules[2].allow[0]: "fly" is not one of (12)`,
	`groups.ops: "everyone" is not a caller (2)`,
	`rules[1]: there is no group "none" (7)`,
	`rules[1]: "everyone" is not a caller (7)`,
	`rules[1].repositories: "a[" is not a pattern (8)`,
	`rules[1].repositories: "B" is not a pattern (8)`,
	`rules[2].repositories: "c[" is not a pattern (11)`,
	`rules[1]: pull is allowed and denied (7)`,
	`rules[2].who: is required (11)`,
}

// TestRules_ErrorsAtTheirLines: all errors of the rules come at once, each with its line, in the configuration and in a file of rules.
func TestRules_ErrorsAtTheirLines(t *testing.T) {
	check := func(err error, section string, further int) {
		t.Helper()
		if err == nil {
			t.Fatal("no error")
		}
		lines := strings.Split(err.Error(), "\n")
		if len(lines) != len(wrongAt)+further {
			t.Errorf("%d errors:\n%v", len(lines), err)
		}
		for _, want := range wrongAt {
			text, line, _ := strings.Cut(want, " (")
			if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, section+text) && strings.HasSuffix(l, ".yml:"+line) }) {
				t.Errorf("want %s%s in\n%v", section, want, err)
			}
		}
	}
	_, err := LoadAccess("rules.yml", []byte(wrongRules))
	check(err, "", 0)
	if _, err := LoadAccess("rules.yml", []byte("rules: []")); err == nil || !strings.HasPrefix(err.Error(), "has no rules") {
		t.Errorf("%v", err)
	}

	retention := "storage:\n  inmemory: {}\n  maintenance: {retention: {rules: [{repositories: [\"**\"], action: delete}]}}\nversion: 0.1\n"
	_, _, err = load(config.Options{File: "c.yml", Source: []byte("access:\n  " + strings.ReplaceAll(strings.TrimSuffix(wrongRules, "\n"), "\n", "\n  ") + "\n" + retention)})
	for i, want := range wrongAt { // the section begins a line later
		text, line, _ := strings.Cut(want, " (")
		n := map[string]string{"2)": "3)", "7)": "8)", "8)": "9)", "11)": "12)", "12)": "13)"}[line]
		defer func() { wrongAt[i] = want }()
		wrongAt[i] = text + " (" + n
	}
	check(err, "access.", 1)
	if !strings.Contains(err.Error(), "storage.maintenance.retention.rules[0]: would delete every tag") {
		t.Errorf("the rule of retention is not named:\n%v", err)
	}
}
