package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// htpasswdRun runs the command as a shell would.
func htpasswdRun(stdin string, args ...string) (stdout string, err error) {
	var out strings.Builder
	cmd := newHtpasswdCommand(strings.NewReader(stdin), &out, io.Discard)
	cmd.SetArgs(append([]string{"--cost=4"}, args...))
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	err = cmd.ExecuteContext(context.Background())
	return out.String(), err
}

func TestHtpasswdCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "htpasswd")
	if _, err := htpasswdRun("secret\r\n", "-B", path, "alice"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("new file: %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := htpasswdRun("other", "--password-stdin", path, "bob"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the mode is not kept: %v, %v", info.Mode(), err)
	}
	content, _ := os.ReadFile(path)
	if n := strings.Count(string(content), ":$2y$04$"); n != 2 || strings.Contains(string(content), "secret") {
		t.Errorf("content %q", content)
	}

	if _, err := htpasswdRun("", "--delete", path, "alice"); err != nil {
		t.Fatal(err)
	}
	content, _ = os.ReadFile(path)
	if !strings.HasPrefix(string(content), "bob:") {
		t.Errorf("after the deletion: %q", content)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".htpasswd-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestHtpasswdCommandFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if _, err := htpasswdRun("p", link, "alice"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link was replaced")
	}
	if content, _ := os.ReadFile(target); !strings.HasPrefix(string(content), "alice:") {
		t.Errorf("the target holds %q", content)
	}
}

func TestHtpasswdCommandFails(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	for _, c := range []struct {
		name, stdin string
		args        []string
		want        string
	}{
		{"empty password", "\n", []string{file, "alice"}, "password"},
		{"long password", strings.Repeat("x", 73), []string{file, "alice"}, "72"},
		{"colon in the user", "p", []string{file, "a:b"}, "must not contain"},
		{"no directory", "p", []string{filepath.Join(dir, "none", "f"), "alice"}, "none does not exist: make or mount it"},
		{"delete without a file", "", []string{"--delete", file, "alice"}, "no such file"},
		{"one argument", "p", []string{file}, "received 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if out, err := htpasswdRun(c.stdin, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q, and %q", err, c.want, out)
			}
			if _, err := os.Stat(file); err == nil {
				t.Error("a file was made")
			}
		})
	}
}

// TestOverwrittenPasswords: what a file held before that is written over is not
// read for as much as a moment.
func TestOverwrittenPasswords(t *testing.T) {
	for _, c := range []struct {
		content string
		size    int64
		want    string
	}{
		{"", 0, ""},
		{"b:y\n", 0, "b:y\n"},
		{"b:y\n", 4, "b:y\n"},
		{"b:y\n", 8, "b:y\n\n\n\n\n"},
		{"", 2, "\n\n"},
	} {
		if got := string(padLines([]byte(c.content), c.size)); got != c.want {
			t.Errorf("%q over %d bytes is written as %q", c.content, c.size, got)
		}
	}
}
