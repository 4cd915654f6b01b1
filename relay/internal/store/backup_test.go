package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A backup is made beside a running relay, opens as a database of its own, and replaces no file.
func TestBackup(t *testing.T) {
	dir := t.TempDir()
	path, to := filepath.Join(dir, "relay.db"), filepath.Join(dir, "backup.db")
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Update(t.Context(), func(tx *Tx) error { return tx.SetSetting("later", "yes") }); err != nil { // is in the write-ahead log only
		t.Fatal(err)
	}
	if err := Backup(t.Context(), path, to); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v: want a file that only its owner can read", info, err)
	}
	restored, err := Open(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	defer restored.Close()
	var ok string
	if err := restored.pools[1].QueryRowContext(t.Context(), "SELECT * FROM pragma_integrity_check").Scan(&ok); err != nil || ok != "ok" {
		t.Errorf("the backup: %q, %v", ok, err)
	}
	if later, err := restored.Setting(t.Context(), "later"); err != nil || later != "yes" {
		t.Errorf("the backup has %q, %v: want what the log held", later, err)
	}
	for want, err := range map[string]error{
		"backup.db exists": Backup(t.Context(), path, to),
		"missing.db":       Backup(t.Context(), filepath.Join(dir, "missing.db"), filepath.Join(dir, "other.db")),
		"no-such-folder":   Backup(t.Context(), path, filepath.Join(dir, "no-such-folder", "b.db")),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".relay-backup-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
