package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

// Users and robots can be removed where nothing can be written, the audit log neither.
func TestRevoke_FullDisk(t *testing.T) {
	dir := programtest.Mount(t, "tmpfs", "size=256k")
	acts := filepath.Join(programtest.Mount(t, "tmpfs", "size=64k"), "audit.log") // apart: a deletion makes room
	passwords, config := filepath.Join(dir, "htpasswd"), filepath.Join(dir, "config.yml")
	for _, user := range []string{"alice", "bob"} {
		if _, err := htpasswdRun("secret", passwords, user); err != nil {
			t.Fatal(err)
		}
	}
	text := "version: 0.1\nstorage: {filesystem: {rootdirectory: " + dir + "}}\nauth: {htpasswd: {realm: r, path: " + passwords + "}, service: builtin}\naudit: {file: " + acts + "}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	do := func(args ...string) (int, string) {
		var out strings.Builder
		code := run(t.Context(), append(args, "--config", config), nil, &out, &out)
		return code, out.String()
	}
	if code, out := do("robot", "create", "ci", "--repositories", "a", "--allow", "push"); code != 0 {
		t.Fatal(out)
	}
	if err := os.Truncate(acts, 0); err != nil { // the next line needs a page
		t.Fatal(err)
	}
	programtest.Fill(t, filepath.Join(dir, "filler"))
	programtest.Fill(t, filepath.Join(filepath.Dir(acts), "filler"))
	if code, out := do("robot", "create", "more", "--repositories", "a", "--allow", "push"); code == 0 {
		t.Fatalf("the disk is not full: %s", out)
	}
	if code, out := do("robot", "delete", "ci", "--yes"); code != 0 || !strings.Contains(out, "warning: the audit log is incomplete: lost 1 line") {
		t.Errorf("robot delete: %d, %s", code, out)
	}
	if _, out := do("robot", "list"); strings.Contains(out, "ci") {
		t.Errorf("after it: %s", out)
	}
	if _, err := htpasswdRun("", "--delete", passwords, "alice"); err != nil {
		t.Errorf("htpasswd --delete: %v", err)
	}
	if content, err := os.ReadFile(passwords); err != nil || strings.Contains(string(content), "alice") || !strings.HasPrefix(string(content), "bob:$2") {
		t.Errorf("after it: %q, %v", content, err)
	}
}
