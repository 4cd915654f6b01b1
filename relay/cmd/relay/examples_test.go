package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

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
	for _, args := range []string{"app create backup", "app create nightly", "user create anna", "user create bob"} {
		if code := run(t.Context(), append(strings.Fields(args), "--config", file), strings.NewReader(""), io.Discard, os.Stderr); code != 0 {
			t.Fatalf("relay %s: %d", args, code)
		}
	}
	program.Examples(t, dir, "serve", "setup show", "import pushbits", "migrate", "messages show", "messages cancel", "messages retry", "send", "doctor", "health", "recovery-key")
}
