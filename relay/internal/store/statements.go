package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxRows is how many rows one statement writes at most.
const maxRows = 32

// statements are the writer's prepared statements. Those about several rows take one round trip to a server for all of them.
type statements struct {
	d    *database
	conn *sql.Conn

	begin, commit, rollback, savepoint, undo, release *sql.Stmt

	outcome, takeKey, nameKey, key *sql.Stmt

	insert, sent, stats, totals *many
}

func prepare(ctx context.Context, d *database, conn *sql.Conn) (*statements, error) {
	var errs []error
	stmt := func(text string) *sql.Stmt {
		s, err := conn.PrepareContext(ctx, d.bind(text))
		if err != nil {
			errs = append(errs, fmt.Errorf("prepare %q: %w", text, err))
		}
		return s
	}
	s := &statements{
		d: d, conn: conn,
		begin: stmt(d.begin), commit: stmt(`COMMIT`), rollback: stmt(`ROLLBACK`),
		savepoint: stmt(`SAVEPOINT one`), undo: stmt(`ROLLBACK TO SAVEPOINT one`), release: stmt(`RELEASE SAVEPOINT one`),
		outcome: stmt(outcomeText),
		takeKey: stmt(`INSERT INTO idempotency (application_id, key, hash, message_id, priority, created_at) VALUES (?, ?, ?, 0, ?, ?) ON CONFLICT (application_id, key) DO NOTHING`),
		nameKey: stmt(`UPDATE idempotency SET message_id = ? WHERE application_id = ? AND key = ?`),
		key:     stmt(`SELECT hash, message_id, priority, created_at FROM idempotency WHERE application_id = ? AND key = ?`),
		insert:  &insertText, sent: &sentText, stats: &statsText, totals: &totalsText,
	}
	for _, m := range []**many{&s.insert, &s.sent, &s.stats, &s.totals} {
		text := **m
		text.prepared = map[int]*sql.Stmt{}
		*m = &text
	}
	return s, errors.Join(errs...)
}

// many is a statement about several rows.
type many struct {
	before string
	row    []string // the terms of a row
	after  string

	prepared map[int]*sql.Stmt // by number of rows, when it is first needed
}

// placeholders are the terms of a row of n values.
func placeholders(n int) []string { return slices.Repeat([]string{"?"}, n) }

// query runs a statement about rows, maxRows of them at a time, and calls each with every row that it returns.
func (s *statements) query(ctx context.Context, m *many, rows [][]any, each func(*sql.Rows) error) error {
	for part := range slices.Chunk(rows, maxRows) {
		stmt, err := s.prepareRows(ctx, m, len(part))
		if err != nil {
			return err
		}
		if err := queryAll(ctx, stmt, slices.Concat(part...), each); err != nil {
			return err
		}
	}
	return nil
}

func (s *statements) prepareRows(ctx context.Context, m *many, n int) (_ *sql.Stmt, err error) {
	if m.prepared[n] == nil {
		row := "(" + strings.Join(m.row, ", ") + ")"
		m.prepared[n], err = s.conn.PrepareContext(ctx, s.d.bind(m.before+strings.TrimSuffix(strings.Repeat(row+", ", n), ", ")+m.after)) //nolint:sqlclosecheck // it is closed with the connection
	}
	return m.prepared[n], err
}

func queryAll(ctx context.Context, stmt *sql.Stmt, args []any, each func(*sql.Rows) error) error {
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
