package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A database and a pickle key that others can read are corrected at the start, with a
// warning, and `config check` warns before.
func TestServe_RestrictsSecrets(t *testing.T) {
	d := newDesk(t)
	database := filepath.Join(filepath.Dir(d.file), "relay.db")
	d.serve()()
	files := []string{database, database + pickleKeySuffix}
	for _, file := range files {
		if err := os.Chmod(file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		d.does(0, "config check -c %", file+" holds secrets, and other users of this machine can read it")
	}
	d.serve()()
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
		if !strings.Contains(d.errout, "could read files with secrets") || !strings.Contains(d.errout, file) {
			t.Errorf("the log does not name %s:\n%s", file, d.errout)
		}
	}
	d.does(0, "config check -c %")
	if strings.Contains(d.out+d.errout, "holds secrets") {
		t.Errorf("config check still warns:\n%s%s", d.out, d.errout)
	}
}
