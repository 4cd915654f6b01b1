package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/registry/internal/layout"
)

// The keys that sign tokens and the robots are for their owner only. What an older build
// has left readable is corrected at the start, with a warning, and `config check` warns
// before.
func TestServe_RestrictsSecrets(t *testing.T) {
	config := accessConfig(t, "")
	root := filepath.Dir(config)
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, bytes.Replace(text, []byte("auth: {"), []byte("auth: {service: builtin, "), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	do := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if code := run(t.Context(), append(args, "--config", config), nil, &out, &out); code != 0 {
			t.Fatalf("%v: %d\n%s", args, code, &out)
		}
		return out.String()
	}
	serve := func() string {
		t.Helper()
		r := start(t, nil, config)
		r.url()
		r.end()
		return r.stderr.String()
	}
	modes := map[string]os.FileMode{root + layout.Auth: 0o700, root + layout.Keys: 0o600, root + layout.Robots: 0o700, root + layout.Robots + "/ci": 0o600}
	verify := func(when string) {
		t.Helper()
		for path, want := range modes {
			if info, err := os.Stat(path); err != nil {
				t.Errorf("%s: %v", when, err)
			} else if got := info.Mode().Perm(); got != want {
				t.Errorf("%s: %s has mode %v, want %v", when, path, got, want)
			}
		}
	}
	expose := func() {
		t.Helper()
		for path, mode := range modes {
			if err := os.Chmod(path, mode|0o044|mode>>3&0o011); err != nil {
				t.Fatal(err)
			}
		}
	}

	serve()
	do("robot", "create", "ci", "--repositories", "a", "--allow", "push")
	verify("when they are made")
	expose()
	checked, log := do("config", "check"), serve()
	verify("after a start")
	for path := range modes {
		if !strings.Contains(checked, path+" holds secrets") {
			t.Errorf("config check does not warn of %s:\n%s", path, checked)
		}
		if !strings.Contains(log, "could read files with secrets") || !strings.Contains(log, path) {
			t.Errorf("the start does not warn of %s:\n%s", path, log)
		}
	}
	expose()
	do("robot", "create", "other", "--repositories", "a", "--allow", "push")
	verify("after a command")
	if got := do("config", "check"); strings.Contains(got, "holds secrets") {
		t.Errorf("config check still warns:\n%s", got)
	}
}
