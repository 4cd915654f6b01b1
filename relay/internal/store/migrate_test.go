package store

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMigrateFromEmpty(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new folder", "relay.db")
	s := open(t, path)
	if s.Migrated.From != 0 || s.Migrated.To != 1 {
		t.Errorf("migrated %+v", s.Migrated)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", fi.Mode(), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	if s.Migrated.From != 1 || s.Migrated.To != 1 {
		t.Errorf("opened again: migrated %+v", s.Migrated)
	}
}

func TestOpenRefuses(t *testing.T) {
	newer := filepath.Join(t.TempDir(), "newer.db")
	s := open(t, newer)
	update(t, s, func(tx *Tx) error {
		return tx.exec(`INSERT INTO schema_version (version, applied_at) VALUES (99, 0)`)
	})
	_ = s.Close()
	foreign := filepath.Join(t.TempDir(), "foreign.db")
	db, _ := sql.Open("sqlite", foreign)
	if _, err := db.Exec(`CREATE TABLE users (id)`); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	garbage := filepath.Join(t.TempDir(), "garbage.db")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	held := filepath.Join(t.TempDir(), "held.db")
	open(t, held)
	for path, want := range map[string]string{
		newer: "newer", foreign: "something else", garbage: "not a database", held: ErrLocked.Error(), "": "needs a file",
		t.TempDir(): "directory", "/dev/null/x/relay.db": "not a directory",
	} {
		s, err := Open(ctx, path)
		if err == nil {
			_ = s.Close()
			t.Errorf("%s was opened", path)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", path, err, want)
		}
	}
}

// TestOpenOddNames opens paths that would mean something else inside a URI.
func TestOpenOddNames(t *testing.T) {
	for _, name := range []string{"a b.db", "a?mode=memory.db", "a#b.db", "100%41.db", "ä.db"} {
		path := filepath.Join(t.TempDir(), name)
		s := open(t, path)
		if err := s.Insert(ctx, entry(1, "x")); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if fi, err := os.Stat(path); err != nil || fi.Size() == 0 && !exists(path+"-wal") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
