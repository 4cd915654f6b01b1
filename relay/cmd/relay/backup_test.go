package main

import (
	"errors"
	"path/filepath"
	"testing"

	"slipway/relay/internal/store"
	"slipway/shared/programtest"
)

func TestBackup_IsDurable(t *testing.T) {
	programtest.WantDurable(t, func(dir string) error {
		path := filepath.Join(dir, "relay.db")
		s, err := store.Open(t.Context(), path)
		if err != nil {
			return err
		}
		return errors.Join(store.Backup(t.Context(), path, filepath.Join(dir, "backup.db")), s.Close())
	}, "backup.db")
}
