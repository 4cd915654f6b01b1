package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/config"
)

// Changes of robots on the command line are in the audit log, those that fail too, and
// without a place to write them nothing is changed.
func TestRobotCommands_AreAudited(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "audit.log")
	path := accessConfig(t, "access: {rules: [{who: [users], repositories: ['**'], allow: [pull]}]}\naudit: {file: "+file+", maxsize: 1}\n")
	do := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := run(t.Context(), append(args, path), nil, &out, &errs); code != want {
			t.Fatalf("%v: %d\n%s%s", args, code, out.String(), errs.String())
		}
		return out.String() + errs.String()
	}
	made := do(0, "robot", "create", "ci", "--repositories", "web/**", "--allow", "push")
	do(1, "robot", "create", "ci", "--repositories", "web/**", "--allow", "push")
	do(0, "robot", "list")
	do(0, "robot", "revoke", "ci")
	do(1, "robot", "revoke", "ci")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var events []string
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		var r audit.Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if r.Who != "command line" || r.From == "" || r.Reference != "ci" || r.Time.IsZero() {
			t.Errorf("%s", lines.Text())
		}
		events = append(events, r.Event+" "+r.Result)
	}
	if got := strings.Join(events, ", "); got != "robot created succeeded, robot created failed, robot revoked succeeded, robot revoked failed" {
		t.Errorf("events: %s", got)
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

// SIGHUP reads the workloads again.
func TestReload_Workloads(t *testing.T) {
	workload := func(names ...string) *config.Config {
		cfg := config.Default()
		cfg.Auth = &config.Auth{Service: &config.TokenService{Builtin: &config.BuiltinService{}}}
		for _, name := range names {
			cfg.Auth.Service.Builtin.Workloads = append(cfg.Auth.Service.Builtin.Workloads, config.Workload{
				Name: name, Issuer: "https://ci.example.org", Audience: "r", Claims: map[string]string{"sub": name}, Repositories: []string{"a"}, Allow: []string{"pull"},
			})
		}
		return &cfg
	}
	level := zap.NewAtomicLevel()
	g := &gate{workloads: auth.NewWorkloads(nil)}
	first, next := workload(), workload("web", "tools")
	r := reloader{cfg: *first, load: func() (*config.Config, error) { return next, nil }, level: &level, gate: g, log: zap.NewNop()}
	for _, names := range [][]string{{"web", "tools"}, {"web"}, {}} {
		next = workload(names...)
		r.reload()
		if got := g.workloads.Names(); strings.Join(got, " ") != strings.Join(names, " ") {
			t.Errorf("in force: %v, want %v", got, names)
		}
		if got := len(r.cfg.Auth.Service.Builtin.Workloads); got != len(names) {
			t.Errorf("the configuration in force has %d", got)
		}
	}
	if len(first.Auth.Service.Builtin.Workloads) != 0 {
		t.Error("the configuration of the start was changed")
	}
}
