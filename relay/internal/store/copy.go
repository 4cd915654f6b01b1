package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway/relay/internal/lease"
	"slipway/relay/internal/post"
)

const (
	copyRows  = 500         // written in one transaction
	copyBytes = 4 << 20     // …and about how many bytes
	copyLease = time.Minute // longer than one part takes
)

// copied are the tables, each after those that its rows refer to.
var copied = []string{
	"users", "rooms", "applications", "application_images", "sessions", "clients", "hidden_messages", "hidden_through", "outbox", "alerts", "payloads",
	"digests", "attachments", "attachment_chunks", "idempotency", "stats", "pending_joins", "crypto", "settings",
}

// Copy copies everything to an empty database in one transaction: a copy that is interrupted leaves the target empty. No relay may
// use either of them meanwhile. report is called after each part with the table and the number of its rows copied so far.
func Copy(ctx context.Context, from, to *Store, report func(table string, rows int64)) (err error) {
	for _, s := range []*Store{from, to} {
		if err := s.keepRelaysOut(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.letRelaysIn(ctx)) }()
	}
	for _, t := range copied {
		var used bool
		if err := to.queryRow(ctx, `SELECT EXISTS (SELECT 1 FROM `+t+`)`).Scan(&used); err != nil {
			return err
		}
		if used {
			return fmt.Errorf("the target is not empty (%s has rows): name a database that no relay has used", t)
		}
	}
	return to.inTransaction(ctx, func(w execer) error {
		for _, t := range copied {
			if err := copyTable(ctx, from, to, w, t, report); err != nil {
				return fmt.Errorf("copy the table %s: %w", t, err)
			}
		}
		return nil
	})
}

// keepRelaysOut checks that no relay uses a PostgreSQL database, and takes or renews the lease so that none begins to deliver.
// SQLite's file is locked.
func (s *Store) keepRelaysOut(ctx context.Context) error {
	if !s.Shared() {
		return nil
	}
	var n int
	err := s.read.QueryRowContext(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1`, relayApplication).Scan(&n)
	if err == nil && n > 0 {
		err = errors.New("relays use the database: stop all of them first")
	}
	if err != nil {
		return err
	}
	if s.Held() {
		held, err := s.Renew(ctx, copyLease, "")
		if err == nil && !held {
			err = lease.ErrNotHeld
		}
		return err
	}
	taken, err := s.Acquire(ctx, copyLease)
	if err == nil && !taken {
		err = errors.New("the lease of a relay that was killed has not expired yet: try again in ten seconds, or in a minute after a migration that was killed")
	}
	return err
}

// letRelaysIn gives the lease back, also after a failure or an interruption.
func (s *Store) letRelaysIn(ctx context.Context) error {
	if !s.Shared() || !s.Held() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), transactWithin)
	defer cancel()
	return s.Release(ctx, func(*Tx) error { return nil })
}

// execer is a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// inTransaction runs do in a transaction that may take longer than a relay's commit.
func (s *Store) inTransaction(ctx context.Context, do func(execer) error) error {
	if !s.Shared() {
		return s.Update(ctx, func(tx *Tx) error { return do(tx.sql.conn) })
	}
	tx, err := s.pools[0].BeginTx(ctx, nil)
	if err != nil {
		return explain(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, `SET LOCAL idle_in_transaction_session_timeout = 0`); err != nil {
		return explain(err)
	}
	if err := do(tx); err != nil {
		return explain(err)
	}
	return explain(tx.Commit())
}

// copyTable copies a table and continues its ids, also those of rows that are gone.
func copyTable(ctx context.Context, from, to *Store, w execer, table string, report func(string, int64)) error {
	columns, err := to.columns(ctx, table)
	if err != nil {
		return err
	}
	rows, err := from.read.DB.QueryContext(ctx, `SELECT `+names(columns)+` FROM `+table) // it may take longer than other reads
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for done := int64(0); ; {
		if err := errors.Join(ctx.Err(), from.keepRelaysOut(ctx), to.keepRelaysOut(ctx)); err != nil {
			return err
		}
		part, err := scanPart(rows, columns)
		if err != nil {
			return err
		}
		if len(part) == 0 {
			break
		}
		if err := insertRows(ctx, to.d, w, table, columns, part); err != nil {
			return err
		}
		done += int64(len(part))
		report(table, done)
	}
	if !slices.ContainsFunc(columns, func(c column) bool { return c.name == "id" }) {
		return nil
	}
	var last int64
	err = from.queryRow(ctx, from.d.lastID, table).Scan(&last)
	if err == nil && last > 0 {
		_, err = w.ExecContext(ctx, to.d.bind(to.d.continueID), table, last)
	}
	return err
}

// column is a column of the target.
type column struct{ name, kind string }

func (s *Store) columns(ctx context.Context, table string) ([]column, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT * FROM `+table+` LIMIT 0`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	types, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	all := make([]column, len(types))
	for i, t := range types {
		all[i] = column{t.Name(), t.DatabaseTypeName()}
	}
	return all, rows.Err()
}

// scanPart reads the next rows, up to a bound.
func scanPart(rows *sql.Rows, columns []column) (all [][]any, err error) {
	for size := 0; size < copyBytes && len(all) < copyRows && rows.Next(); {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		for i, v := range values {
			values[i] = columns[i].convert(v)
			size += sizeOf(values[i])
		}
		all = append(all, values)
	}
	return all, rows.Err()
}

func names(columns []column) string {
	all := make([]string, len(columns))
	for i, c := range columns {
		all[i] = c.name
	}
	return strings.Join(all, ", ")
}

// convert makes of a value what the column takes: the databases differ in what is a truth value, bytes and text.
func (c column) convert(v any) any {
	switch v := v.(type) {
	case int64:
		if c.kind == "BOOL" {
			return v != 0
		}
	case bool:
		if c.kind != "BOOL" && v {
			return int64(1)
		} else if c.kind != "BOOL" {
			return int64(0)
		}
	case string:
		if c.kind == "BYTEA" || c.kind == "BLOB" {
			return []byte(v)
		}
		return post.Clean(v)
	case []byte:
		if c.kind == "TEXT" {
			return post.Clean(string(v))
		}
	}
	return v
}

func sizeOf(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v)
	}
	return 8
}

func insertRows(ctx context.Context, d *database, w execer, table string, columns []column, rows [][]any) error {
	row := "(" + strings.Join(placeholders(len(columns)), ", ") + ")"
	text := `INSERT INTO ` + table + ` (` + names(columns) + `) VALUES ` + strings.Join(slices.Repeat([]string{row}, len(rows)), ", ")
	_, err := w.ExecContext(ctx, d.bind(text), slices.Concat(rows...)...)
	return err
}
