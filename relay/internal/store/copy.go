package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway/relay/internal/cluster"
	"slipway/relay/internal/message"
)

const (
	copyRows  = 500         // written in one transaction
	copyBytes = 4 << 20     // …and about how many bytes
	copyLease = time.Minute // longer than one part takes
)

// copied are the tables with the columns that order their rows.
var copied = []table{
	{"users", []string{"id"}},
	{"rooms", []string{"id"}},
	{"applications", []string{"id"}},
	{"application_images", []string{"application_id"}},
	{"sessions", []string{"token_hash"}},
	{"clients", []string{"id"}},
	{"hidden_messages", []string{"message_id", "user_id"}},
	{"hidden_through", []string{"user_id", "application_id"}},
	{"outbox", []string{"id"}},
	{"alerts", []string{"message_id"}},
	{"payloads", []string{"application_id"}},
	{"floods", []string{"application_id"}},
	{"attachments", []string{"id"}},
	{"attachment_chunks", []string{"attachment_id", "n"}},
	{"idempotency", []string{"application_id", "key"}},
	{"stats", []string{"hour", "application_id"}},
	{"pending_joins", []string{"room_id"}},
	{"crypto", []string{"device", "kind", "key"}},
	{"settings", []string{"key"}},
}

type table struct {
	name string
	key  []string
}

// givesIDs reports whether the database gives the rows their ids.
func (t table) givesIDs() bool { return t.key[0] == "id" }

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
		if err := to.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM `+t.name+`)`).Scan(&used); err != nil {
			return err
		}
		if used {
			return fmt.Errorf("the target is not empty (%s has rows): name a database that no relay has used", t.name)
		}
	}
	return to.inTransaction(ctx, func(w execer) error {
		for _, t := range copied {
			if err := copyTable(ctx, from, to, w, t, report); err != nil {
				return fmt.Errorf("copy the table %s: %w", t.name, err)
			}
		}
		return continueIDs(ctx, from, to, w)
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
			err = cluster.ErrNotHeld
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

// copyTable copies a table.
func copyTable(ctx context.Context, from, to *Store, w execer, t table, report func(string, int64)) error {
	columns, err := to.columns(ctx, t.name)
	if err != nil {
		return err
	}
	var done int64
	var after []any
	for {
		if err := errors.Join(ctx.Err(), from.keepRelaysOut(ctx), to.keepRelaysOut(ctx)); err != nil {
			return err
		}
		rows, last, err := from.part(ctx, t, columns, after)
		if err != nil || len(rows) == 0 {
			return err
		}
		if err := insertRows(ctx, to.d, w, t.name, columns, rows); err != nil {
			return err
		}
		done += int64(len(rows))
		report(t.name, done)
		after = last
	}
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

// part reads the rows that follow a key, in order, up to a bound, and returns the key of the last of them.
func (s *Store) part(ctx context.Context, t table, columns []column, after []any) (all [][]any, last []any, err error) {
	key, text, args := strings.Join(t.key, ", "), `SELECT `+names(columns)+` FROM `+t.name+` WHERE `, []any(nil)
	if after == nil {
		text += `1 = 1`
	} else {
		text += `(` + key + `) > (` + strings.TrimSuffix(strings.Repeat("?, ", len(after)), ", ") + `)`
		args = append(args, after...)
	}
	rows, err := s.query(ctx, text+` ORDER BY `+key+` LIMIT ?`, append(args, copyRows)...)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = rows.Close() }()
	for size := 0; size < copyBytes && rows.Next(); {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, nil, err
		}
		last = t.keyOf(columns, values)
		for i, v := range values {
			values[i] = columns[i].convert(v)
			size += sizeOf(values[i])
		}
		all = append(all, values)
	}
	return all, last, rows.Err()
}

// keyOf is the key of a row, as the source has it.
func (t table) keyOf(columns []column, values []any) []any {
	key := make([]any, len(t.key))
	for i, name := range t.key {
		key[i] = values[slices.IndexFunc(columns, func(c column) bool { return c.name == name })]
	}
	return key
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
		return message.Clean(v)
	case []byte:
		if c.kind == "TEXT" {
			return message.Clean(string(v))
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
	row := "(" + strings.TrimSuffix(strings.Repeat("?, ", len(columns)), ", ") + ")"
	for part := range slices.Chunk(rows, copyRows) {
		var args []any
		for _, values := range part {
			args = append(args, values...)
		}
		text := `INSERT INTO ` + table + ` (` + names(columns) + `) VALUES ` + strings.TrimSuffix(strings.Repeat(row+", ", len(part)), ", ")
		if _, err := w.ExecContext(ctx, d.bind(text), args...); err != nil {
			return err
		}
	}
	return nil
}

// continueIDs continues the source's ids, also those of rows that are gone.
func continueIDs(ctx context.Context, from, to *Store, w execer) error {
	for _, t := range copied {
		if !t.givesIDs() {
			continue
		}
		var last int64
		err := from.queryRow(ctx, from.d.lastID, t.name).Scan(&last)
		if err == nil && last > 0 {
			_, err = w.ExecContext(ctx, to.d.bind(to.d.continueID), t.name, last)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
