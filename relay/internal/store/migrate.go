package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the schema to the newest version, one file and one transaction a version. It returns the version
// it found and the one it leaves.
func migrate(ctx context.Context, conn *sql.Conn) (from, to int, err error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return 0, 0, err
	}
	if from, err = schemaVersion(ctx, conn); err != nil {
		return 0, 0, fmt.Errorf("read the schema's version: %w", err)
	}
	if from > len(names) {
		return from, from, fmt.Errorf("the database has schema version %d, this relay knows up to %d: it was written by a newer one", from, len(names))
	}
	for i, name := range names[from:] {
		if err := migrateTo(ctx, conn, from+i+1, name); err != nil {
			return from, from + i, fmt.Errorf("migrate to schema version %d: %w", from+i+1, err)
		}
	}
	return from, len(names), nil
}

// schemaVersion returns the newest version in schema_version; 0 for an empty database. A database with other
// tables but no schema_version is not ours.
func schemaVersion(ctx context.Context, conn *sql.Conn) (int, error) {
	var tables, ours int
	err := conn.QueryRowContext(ctx, `SELECT count(*), coalesce(sum(name = 'schema_version'), 0)
		FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`).Scan(&tables, &ours)
	if err != nil || tables == 0 {
		return 0, err
	}
	if ours == 0 {
		return 0, errors.New("the file is a database of something else (it has tables, but none named schema_version): give the relay a file of its own; `relay import pushbits` takes over what is in one of PushBits")
	}
	var v int
	err = conn.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM schema_version`).Scan(&v)
	return v, err
}

func migrateTo(ctx context.Context, conn *sql.Conn, version int, name string) error {
	text, err := migrations.ReadFile(name)
	if err != nil {
		return err
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, string(text)); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO schema_version (version, applied_at) VALUES (?, unixepoch())`, version); err != nil {
		return err
	}
	return tx.Commit()
}
