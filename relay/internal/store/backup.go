package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"slipway/shared/durabledir"
	"slipway/shared/fileerror"
)

// Backup writes a consistent copy of the SQLite database at path into the file to, which must not exist, while a
// relay may use the database. The copy has no free pages and the mode 0600, and appears at to only when it is
// whole and flushed.
func Backup(ctx context.Context, path, to string) (err error) {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("open the database: %w", fileerror.Explain(path, err))
	}
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s exists: name a new file, or remove it first", to)
	}
	dir, err := os.MkdirTemp(filepath.Dir(to), ".relay-backup-") // which is for this user alone
	if err != nil {
		return fmt.Errorf("write the backup: %w", fileerror.Explain(filepath.Dir(to), err))
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	db, err := sql.Open("sqlite", dsn(path)+"&mode=rw")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	partial := filepath.Join(dir, "relay.db")
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", partial); err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	if err := flush(partial); err != nil {
		return fmt.Errorf("write the backup: %w", fileerror.Explain(filepath.Dir(to), err))
	}
	if err := os.Rename(partial, to); err != nil {
		return fmt.Errorf("write the backup: %w", fileerror.Explain(filepath.Dir(to), err))
	}
	return durabledir.Sync(filepath.Dir(to))
}

func flush(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Sync(), f.Close())
}
