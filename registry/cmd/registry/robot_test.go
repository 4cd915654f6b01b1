package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/audit/audittest"
	"slipway/registry/internal/identity/robot"
)

// Changes of robots on the command line are in the audit log, those that fail too, and
// without a place to write them nothing is changed.
func TestRobotCommands_AreAudited(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "audit.log")
	path := accessConfig(t, "access: {rules: [{who: [users], repositories: ['**'], allow: [pull]}]}\naudit: {file: "+file+"}\n")
	do := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := run(t.Context(), append(args, "--config", path), nil, &out, &errs); code != want {
			t.Fatalf("%v: %d\n%s%s", args, code, out.String(), errs.String())
		}
		return out.String() + errs.String()
	}
	made := do(0, "robot", "create", "ci", "--repositories", "web/**", "--allow", "push")
	do(1, "robot", "create", "ci", "--repositories", "web/**", "--allow", "push")
	if strings.Contains(made, "no access rule names") {
		t.Errorf("a robot with rights of its own: %s", made)
	}
	do(0, "robot", "list")
	do(0, "robot", "delete", "ci", "--yes")
	do(1, "robot", "delete", "ci", "--yes")
	var events []string
	for _, r := range audittest.Read(t, file) {
		if r.Who != "command line" || r.From == "" || r.Reference != "ci" || r.Time.IsZero() {
			t.Errorf("%+v", r)
		}
		events = append(events, r.Event+" "+r.Result)
	}
	if got := strings.Join(events, ", "); got != "robot created succeeded, robot created failed, robot deleted succeeded, robot deleted failed" {
		t.Errorf("events: %s", got)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(made) {
		if _, password, found := strings.Cut(line, "Password:"); found && bytes.Contains(content, []byte(strings.TrimSpace(password))) {
			t.Error("the password is in the audit log")
		}
	}

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := do(1, "robot", "create", "unseen", "--repositories", "web/**", "--allow", "push"); !strings.Contains(got, "audit.file") {
		t.Errorf("without an audit log: %s", got)
	}
	if got := do(0, "robot", "list"); strings.Contains(got, "unseen") {
		t.Errorf("a robot was created without a line in the audit log: %s", got)
	}
}

// A robot that may do nothing yet is created with a warning.
func TestRobotCreate_WithoutRights(t *testing.T) {
	for rules, warned := range map[string]bool{
		"": true,
		"access: {rules: [{who: [users], repositories: ['**'], allow: [pull]}]}\n":      true,
		"access: {rules: [{who: ['robot:ci'], repositories: ['**'], allow: [pull]}]}\n": false,
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), []string{"robot", "create", "ci", "--config", accessConfig(t, rules)}, nil, &out, &errs); code != 0 {
			t.Fatalf("%d\n%s%s", code, &out, &errs)
		}
		if got := strings.Contains(errs.String(), "it may only do what anonymous callers may"); got != warned {
			t.Errorf("%q: %s", rules, &errs)
		}
	}
}

// The time of an expiry is shown where the day does not say enough.
func TestRobotList_Expiry(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for expires, want := range map[time.Duration]string{
		30 * time.Minute: "2026-11-23 12:30 UTC  ", 47 * time.Hour: "2026-11-25 11:00 UTC  ", 72 * time.Hour: "2026-11-26  ", -time.Hour: "2026-11-23 11:00 UTC (expired)  ", -72 * time.Hour: "2026-11-20 (expired)  ",
	} {
		var out bytes.Buffer
		if err := printRobots(&out, []robot.Robot{{Name: "ci", Expires: now.Add(expires), CreatedBy: "oidc:anna"}}, now); err != nil || !strings.Contains(out.String(), "  "+want) || !strings.Contains(out.String(), "  oidc:anna") {
			t.Errorf("%v, %v\n%s", expires, err, &out)
		}
	}
}
