package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway/relay/internal/message"
	"slipway/shared/plural"
)

// Settings of a copy under way.
const (
	copyMark     = "migrate.id"       // in the source: gone once a relay has used it
	copyProgress = "migrate.progress" // in the target
)

const (
	copyRows  = 500     // written in one transaction
	copyBytes = 4 << 20 // …and about how many bytes
	copyLease = time.Minute
)

// copied are the tables with the columns that order their rows.
var copied = []table{
	{"users", []string{"id"}},
	{"rooms", []string{"id"}},
	{"applications", []string{"id"}},
	{"application_images", []string{"application_id"}},
	{"sessions", []string{"token_hash"}},
	{"messages", []string{"id"}},
	{"outbox", []string{"id"}},
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

// numbered reports whether the database gives the rows their ids.
func (t table) numbered() bool { return t.key[0] == "id" && t.name != "messages" } // whose ids are the outbox's

// progress is how far a copy has come.
type progress struct {
	Source string     `json:"source"`
	Table  int        `json:"table"`           // of copied: those before are done
	After  []keyValue `json:"after,omitempty"` // the key of the last row that is copied; nil before the first
}

// keyValue is what a row has in a column of its key, as the source has it.
type keyValue struct {
	Number *int64 `json:"n,omitempty"`
	Text   []byte `json:"t,omitempty"` // may be no UTF-8
	Bytes  []byte `json:"b,omitempty"`
}

func keyValueOf(v any) keyValue {
	switch v := v.(type) {
	case int64:
		return keyValue{Number: &v}
	case []byte:
		return keyValue{Bytes: v}
	}
	return keyValue{Text: fmt.Append(nil, v)}
}

func (k keyValue) argument() any {
	switch {
	case k.Number != nil:
		return *k.Number
	case k.Bytes != nil:
		return k.Bytes
	}
	return string(k.Text)
}

// Copy copies everything to an empty database, or continues a copy that was interrupted. No relay may use either of them
// meanwhile. report is called after each part with the table and how many of its rows are done in this run.
func Copy(ctx context.Context, from, to *Store, report func(table string, rows int64)) error {
	for _, s := range []*Store{from, to} {
		if err := s.keepRelaysOut(ctx); err != nil {
			return err
		}
	}
	p, err := beginCopy(ctx, from, to)
	if err != nil {
		return err
	}
	for ; p.Table < len(copied); p.Table, p.After = p.Table+1, nil {
		if err := copyTable(ctx, from, to, p, report); err != nil {
			return fmt.Errorf("copy the table %s: %w", copied[p.Table].name, err)
		}
	}
	if err := compare(ctx, from, to); err != nil {
		return err
	}
	if mark, err := from.Setting(ctx, copyMark); err != nil || mark != p.Source {
		return errors.Join(errors.New("a relay has used the source meanwhile: begin again with an empty target"), err)
	}
	return endCopy(ctx, from, to)
}

// keepRelaysOut makes sure that no relay uses a database of PostgreSQL, and that none begins to deliver. SQLite's is locked.
func (s *Store) keepRelaysOut(ctx context.Context) error {
	if s.shared == nil {
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
			err = ErrNotHeld
		}
		return err
	}
	taken, err := s.Acquire(ctx, copyLease)
	if err == nil && !taken {
		err = errors.New("the lease of a relay that was killed has not expired yet: try again in ten seconds, or in a minute after an interrupted migration")
	}
	return err
}

// beginCopy returns where to continue.
func beginCopy(ctx context.Context, from, to *Store) (p *progress, err error) {
	source, err := from.Setting(ctx, copyMark)
	if err != nil {
		return nil, err
	}
	text, err := to.Setting(ctx, copyProgress)
	if err != nil {
		return nil, err
	}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &p); err != nil || p.Source != source {
			return nil, errors.New("the target holds a part of another database, or a relay has used the source since: begin again with an empty target")
		}
		return p, nil
	}
	for _, table := range copied {
		var n int64
		if err := to.read.DB.QueryRowContext(ctx, `SELECT count(*) FROM `+table.name).Scan(&n); err != nil {
			return nil, err
		}
		if n > 0 {
			return nil, fmt.Errorf("the target is not empty (%s has %s): name a database that no relay has used", table.name, plural.Of(n, "row"))
		}
	}
	p = &progress{Source: rand.Text()}
	if err := from.Lead(ctx, func(tx *Tx) error { return tx.SetSetting(copyMark, p.Source) }); err != nil {
		return nil, err
	}
	return p, to.inTransaction(ctx, func(w execer) error { return p.save(ctx, to.d, w) })
}

// execer is a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// inTransaction writes for longer than a commit of a relay may take.
func (s *Store) inTransaction(ctx context.Context, do func(execer) error) error {
	if !s.d.numbered {
		return s.Update(ctx, func(tx *Tx) error { return do(tx.sql.conn) })
	}
	tx, err := s.pools[0].BeginTx(ctx, nil)
	if err != nil {
		return explain(err)
	}
	defer func() { _ = tx.Rollback() }()
	if err := do(tx); err != nil {
		return explain(err)
	}
	return explain(tx.Commit())
}

func (p *progress) save(ctx context.Context, d *dialect, w execer) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = w.ExecContext(ctx, d.bind(`INSERT INTO settings (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`), copyProgress, string(text))
	return err
}

// copyTable copies what is left of a table.
func copyTable(ctx context.Context, from, to *Store, p *progress, report func(string, int64)) error {
	t := copied[p.Table]
	columns, err := to.columns(ctx, t.name)
	if err != nil {
		return err
	}
	var done int64
	for {
		if err := errors.Join(from.keepRelaysOut(ctx), to.keepRelaysOut(ctx)); err != nil {
			return err
		}
		rows, last, err := from.part(ctx, t, columns, p.After)
		if err != nil {
			return err
		}
		next := progress{Source: p.Source, Table: p.Table, After: last}
		if len(rows) == 0 {
			next = progress{Source: p.Source, Table: p.Table + 1}
		}
		err = to.inTransaction(ctx, func(w execer) error {
			return errors.Join(insertRows(ctx, to.d, w, t.name, columns, rows), next.save(ctx, to.d, w))
		})
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return nil
		}
		done += int64(len(rows))
		report(t.name, done)
		p.After = last
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
func (s *Store) part(ctx context.Context, t table, columns []column, after []keyValue) (all [][]any, last []keyValue, err error) {
	key, text, args := strings.Join(t.key, ", "), `SELECT `+names(columns)+` FROM `+t.name+` WHERE `, []any(nil)
	if t.name == "settings" {
		text += `key NOT IN ('` + copyMark + `', '` + copyProgress + `') AND `
	}
	if after == nil {
		text += `1 = 1`
	} else {
		text += `(` + key + `) > (` + strings.TrimSuffix(strings.Repeat("?, ", len(after)), ", ") + `)`
		for _, v := range after {
			args = append(args, v.argument())
		}
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

// keyOf is the key of a row.
func (t table) keyOf(columns []column, values []any) []keyValue {
	key := make([]keyValue, len(t.key))
	for i, name := range t.key {
		key[i] = keyValueOf(values[slices.IndexFunc(columns, func(c column) bool { return c.name == name })])
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

func insertRows(ctx context.Context, d *dialect, w execer, table string, columns []column, rows [][]any) error {
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

// compare makes sure that the target has as many rows as the source.
func compare(ctx context.Context, from, to *Store) error {
	for _, t := range copied {
		if t.name == "settings" {
			continue
		}
		var want, got int64
		for s, n := range map[*Store]*int64{from: &want, to: &got} {
			if err := s.read.DB.QueryRowContext(ctx, `SELECT count(*) FROM `+t.name).Scan(n); err != nil {
				return err
			}
		}
		if want != got {
			return fmt.Errorf("the table %s has %s in the source and %d in the target: a relay has used one of them meanwhile; begin again with an empty target", t.name, plural.Of(want, "row"), got)
		}
	}
	return nil
}

// endCopy continues the ids, also those of rows that are gone, and lets relays use the target.
func endCopy(ctx context.Context, from, to *Store) error {
	last := map[string]int64{}
	for _, t := range copied {
		if !t.numbered() {
			continue
		}
		n, err := from.lastID(ctx, t.name)
		if err != nil {
			return err
		}
		last[t.name] = n
	}
	err := to.inTransaction(ctx, func(w execer) error {
		for table, n := range last {
			if err := to.d.continueAfter(ctx, w, table, n); err != nil {
				return err
			}
		}
		_, err := w.ExecContext(ctx, to.d.bind(`DELETE FROM settings WHERE key = ?`), copyProgress)
		return err
	})
	for _, s := range []*Store{from, to} {
		if err == nil && s.shared != nil {
			err = s.Release(ctx, func(*Tx) error { return nil })
		}
	}
	return err
}

// lastID is the last id that was given to a row of a table; 0 if none was.
func (s *Store) lastID(ctx context.Context, table string) (n int64, err error) {
	text := `SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = '` + table + `'), 0)`
	if s.d.numbered {
		text = `SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM ` + table + `_id_seq`
	}
	return n, s.read.QueryRowContext(ctx, text).Scan(&n)
}

func (d *dialect) continueAfter(ctx context.Context, w execer, table string, last int64) error {
	if last == 0 {
		return nil
	}
	if d.numbered {
		_, err := w.ExecContext(ctx, `SELECT setval(pg_get_serial_sequence($1, 'id'), $2)`, table, last)
		return err
	}
	_, err := w.ExecContext(ctx, `DELETE FROM sqlite_sequence WHERE name = ?`, table)
	if err == nil {
		_, err = w.ExecContext(ctx, `INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)`, table, last)
	}
	return err
}

// Use notes that a relay uses the database from now on, which a copy of it would not have. It refuses one that a copy into it
// has not finished.
func (s *Store) Use(ctx context.Context) error {
	text, err := s.Setting(ctx, copyProgress)
	if err == nil && text != "" {
		err = errors.New("a migration into it is not complete: run `relay migrate` again until it is")
	}
	if err != nil {
		return err
	}
	if mark, err := s.Setting(ctx, copyMark); err != nil || mark == "" {
		return err
	}
	return s.Update(ctx, func(tx *Tx) error { return tx.SetSetting(copyMark, "") })
}
