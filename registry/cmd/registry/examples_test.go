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

// TestExamples: what --help shows works.
func TestExamples(t *testing.T) {
	dir := t.TempDir()
	etc := filepath.Join(dir, "etc", "distribution")
	ok(t, os.MkdirAll(filepath.Join(etc, "auth"), 0o755))
	ok(t, os.MkdirAll(filepath.Join(dir, "data"), 0o755))
	ok(t, os.WriteFile(filepath.Join(etc, "auth", "htpasswd"), nil, 0o600))
	ok(t, os.WriteFile(filepath.Join(etc, "config.yml"), []byte(`version: 0.1
storage: {filesystem: {rootdirectory: data}, delete: {enabled: true}}
http: {addr: "127.0.0.1:5000"}
auth: {htpasswd: {realm: r, path: etc/distribution/auth/htpasswd}}
access: {rules: [{who: [anyone], repositories: ["**"], allow: [pull]}, {who: ["robot:ci-web"], repositories: ["web/**"], allow: [push]}, {who: ["oidc-group:developers"], repositories: ["web/**"], allow: [push]}]}
notifications: {endpoints: [{name: relay, url: "http://127.0.0.1:1"}]}
`), 0o600))
	t.Chdir(dir)
	t.Setenv("REGISTRY_CONFIGURATION_PATH", filepath.Join("etc", "distribution", "config.yml"))
	for _, name := range []string{"ci-web", "backup"} {
		args := []string{"robot", "create", name, "--repositories", "web/**", "--allow", "pull"}
		if code := run(t.Context(), args, strings.NewReader(""), io.Discard, os.Stderr); code != 0 {
			t.Fatalf("robot create %s: %d", name, code)
		}
	}
	program.Examples(t, dir, "serve", "health", "events delete", "restore", "export", "import", "mirror sync", "replication list", "replication sync")
}

// TestGrammar: all commands follow the rules of CONTRIBUTING.md.
func TestGrammar(t *testing.T) {
	program.Grammar(t, commandtest.Exceptions{
		Config: []string{"htpasswd", "version", "config reference", "config schema"},
		Data:   []string{"serve", "health", "config check", "config show", "config reference", "config schema", "htpasswd", "events delete", "robot delete"},
		File:   []string{"htpasswd"}, // as Apache has it
	})
}
