package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// migrate brings the schema to the newest version, one file and one transaction a version. It returns the version
// it found and the one it leaves.
func (d *database) migrate(ctx context.Context, conn *sql.Conn) (from, to int, err error) {
	err = d.alone(ctx, conn, func() error {
		from, to, err = d.migrateAll(ctx, conn)
		return err
	})
	return from, to, err
}

func (d *database) migrateAll(ctx context.Context, conn *sql.Conn) (from, to int, err error) {
	names, err := fs.Glob(d.migrations, d.folder+"/*.sql")
	if err != nil {
		return 0, 0, err
	}
	if from, err = d.schemaVersion(ctx, conn); err != nil {
		return 0, 0, fmt.Errorf("read the schema's version: %w", err)
	}
	if from > len(names) {
		return from, from, fmt.Errorf("the database has schema version %d, this relay knows up to %d: it was written by a newer one", from, len(names))
	}
	for i, name := range names[from:] {
		if err := d.migrateTo(ctx, conn, from+i+1, name); err != nil {
			return from, from + i, fmt.Errorf("migrate to schema version %d: %w", from+i+1, err)
		}
	}
	return from, len(names), nil
}

// schemaVersion returns the newest version in schema_version; 0 for an empty database. A database with other
// tables but no schema_version is not ours.
func (d *database) schemaVersion(ctx context.Context, conn *sql.Conn) (int, error) {
	var tables, ours int
	err := conn.QueryRowContext(ctx, d.tables).Scan(&tables, &ours)
	if err != nil || tables == 0 {
		return 0, err
	}
	if ours == 0 {
		return 0, errors.New(d.foreign)
	}
	var v int
	err = conn.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM schema_version`).Scan(&v)
	return v, err
}

func (d *database) migrateTo(ctx context.Context, conn *sql.Conn, version int, name string) error {
	text, err := d.migrations.ReadFile(name)
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
	if _, err := tx.ExecContext(ctx, d.bind(`INSERT INTO schema_version (version, applied_at) VALUES (?, ?)`), version, time.Now().Unix()); err != nil {
		return err
	}
	return tx.Commit()
}
