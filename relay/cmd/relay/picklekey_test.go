package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/relay/internal/config"
	sharedconfig "slipway/shared/config"
	"slipway/shared/programtest"
)

// The key is made once, next to the database, for its owner only; a configured one goes before it, and PostgreSQL has no other.
func TestPickleKey(t *testing.T) {
	var cfg config.Config
	cfg.Database.Dialect, cfg.Database.Connection = "sqlite", filepath.Join(t.TempDir(), "relay.db")
	if err := os.WriteFile(cfg.Database.Connection, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := pickleKey(&cfg)
	if err != nil || len(first) < 50 {
		t.Fatalf("made is %d bytes, %v", len(first), err)
	}
	file := cfg.Database.Connection + pickleKeySuffix
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	if again, err := pickleKey(&cfg); err != nil || !bytes.Equal(again, first) {
		t.Errorf("the next start has another key: %v", err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := pickleKey(&cfg); err == nil || !strings.Contains(err.Error(), file+" is empty: put the key back; if it is lost, delete the file") {
		t.Errorf("an empty file: %v", err)
	}
	cfg.Database.Dialect = "postgres"
	if key, err := pickleKey(&cfg); err != nil || key != nil {
		t.Errorf("PostgreSQL without a key: %d bytes, %v", len(key), err)
	}
	cfg.Matrix.PickleKey = sharedconfig.NewSecret("configured")
	if key, err := pickleKey(&cfg); err != nil || string(key) != "configured" {
		t.Errorf("configured is %q, %v", key, err)
	}
}

func TestPickleKey_IsDurable(t *testing.T) {
	programtest.WantDurable(t, func(dir string) error {
		path := filepath.Join(dir, "relay.db")
		err := os.WriteFile(path, nil, 0o600)
		if err == nil {
			_, err = makePickleKey(path + pickleKeySuffix)
		}
		return err
	}, "relay.db"+pickleKeySuffix)
}
