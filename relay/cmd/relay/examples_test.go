package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"slipway/relay/internal/account"
	"slipway/shared/command/commandtest"
)

var program = commandtest.Program{
	Root: func() *cobra.Command { return newRoot(strings.NewReader(""), io.Discard, io.Discard) },
	Run:  func(args []string) int { return run(context.Background(), args, os.Stdin, os.Stdout, os.Stderr) },
}

// TestMain lets the test binary be the relay's command.
func TestMain(m *testing.M) {
	program.Main()
	os.Exit(m.Run())
}

// TestExamples: what --help shows works.
func TestExamples(t *testing.T) {
	d := newDesk(t)
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.MkdirAll(filepath.Join("etc", "relay"), 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("etc", "relay", "config.yml")
	text, err := os.ReadFile(d.file)
	if err != nil {
		t.Fatal(err)
	}
	here := strings.ReplaceAll(string(text), filepath.Join(filepath.Dir(d.file), "relay.db"), "relay.db")
	if err := os.WriteFile(file, []byte(here), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("etc", "relay", "applications.yml"), []byte("applications: [{name: backup, digest: 10m}, {name: web}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"app create backup", "app create nightly", "user create anna", "user create bob"} {
		if code := run(t.Context(), append(strings.Fields(args), "--config", file), strings.NewReader(""), io.Discard, os.Stderr); code != 0 {
			t.Fatalf("relay %s: %d", args, code)
		}
	}
	t.Setenv("RELAY_CONFIG", file)
	program.Examples(t, dir, "serve", "setup show", "import pushbits", "migrate", "messages show", "messages withdraw", "messages redeliver", "send", "doctor", "health", "recovery-key")
}

// TestGrammar: all commands follow the rules of CONTRIBUTING.md.
func TestGrammar(t *testing.T) {
	program.Grammar(t, commandtest.Exceptions{
		Config: []string{"migrate", "send", "version", "config reference", "config schema"},
		Data: []string{
			"serve", "setup", "config check", "config show", "config reference", "config schema", "migrate", "backup",
			"app secret delete", "app delete", "user delete",
		},
		File: []string{"apply", "backup"},
	})
}

// TestAppSet_HasEachSetting: what the API and the page set, the command sets.
func TestAppSet_HasEachSetting(t *testing.T) {
	cmd, _, err := program.Root().Find([]string{"app", "set"})
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[account.ApplicationInput]()) {
		name := field.Tag.Get("json")
		switch name {
		case "hook_secret": // relay app secret create
			continue
		case "owner_id":
			name = "owner"
		}
		if cmd.Flag(flagName(name)) == nil {
			t.Errorf("no flag sets %s", name)
		}
	}
}
