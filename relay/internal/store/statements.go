package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// maxRows is how many rows one INSERT writes at most.
const maxRows = 32

// statements are the writer's prepared statements.
type statements struct {
	d    *dialect
	conn *sql.Conn

	begin, commit, rollback, savepoint, undo, release *sql.Stmt

	sent, outcome, found, takeKey, nameKey, key, stat, total *sql.Stmt

	sentAll, insertAll, statAll, totalAll *sql.Stmt // PostgreSQL's, for many rows

	messages, outbox map[int]*sql.Stmt // by number of rows
}

const (
	messageColumns = `id, application_id, accepted_at, priority, source, title, body, content_type, extras`
	outboxColumns  = `kind, room, state, txn, queued_at`
)

func prepare(ctx context.Context, d *dialect, conn *sql.Conn) (*statements, error) {
	var errs []error
	stmt := func(text string) *sql.Stmt {
		if text == "" {
			return nil
		}
		s, err := conn.PrepareContext(ctx, d.bind(text))
		if err != nil {
			errs = append(errs, fmt.Errorf("prepare %q: %w", text, err))
		}
		return s
	}
	s := &statements{
		d: d, conn: conn, messages: map[int]*sql.Stmt{}, outbox: map[int]*sql.Stmt{},
		begin: stmt(d.begin), commit: stmt(`COMMIT`), rollback: stmt(`ROLLBACK`),
		savepoint: stmt(`SAVEPOINT one`), undo: stmt(`ROLLBACK TO SAVEPOINT one`), release: stmt(`RELEASE SAVEPOINT one`),
		sent: stmt(`UPDATE outbox SET state = 'sent', attempts = ?, event_id = ?, final_at = ?, next_at = 0, error = '', code = '', wire = NULL
			WHERE id = ? AND final_at = 0`),
		outcome: stmt(`UPDATE outbox SET state = ?, attempts = ?, next_at = ?, first_attempt_at = ?, device = ?, event_type = ?, wire = ?, cut = ?,
			error = ?, code = ?, event_id = ?, final_at = ? WHERE id = ? AND final_at = 0`),
		found:   stmt(`SELECT state, event_id FROM outbox WHERE id = ?`),
		takeKey: stmt(`INSERT INTO idempotency (application_id, key, hash, message_id, priority, created_at) VALUES (?, ?, ?, 0, ?, ?) ON CONFLICT (application_id, key) DO NOTHING`),
		nameKey: stmt(`UPDATE idempotency SET message_id = ? WHERE application_id = ? AND key = ?`),
		key:     stmt(`SELECT hash, message_id, priority, created_at FROM idempotency WHERE application_id = ? AND key = ?`),
		stat: stmt(`INSERT INTO stats (hour, application_id, accepted, sent, dead) VALUES (?, ?, ?, ?, ?) ON CONFLICT (hour, application_id) DO UPDATE
			SET accepted = stats.accepted + excluded.accepted, sent = stats.sent + excluded.sent, dead = stats.dead + excluded.dead`),
		total: stmt(`UPDATE applications SET accepted = accepted + ?, sent = sent + ?, dead = dead + ?,
			last_used = CASE WHEN last_used < ? THEN ? ELSE last_used END WHERE id = ?`),
	}
	if d.numbered {
		s.sentAll, s.insertAll, s.statAll, s.totalAll = stmt(sentAllText), stmt(insertAllText), stmt(statAllText), stmt(totalAllText)
	}
	return s, errors.Join(errs...)
}

// prepareInsert prepares a statement that inserts n rows, when it is first needed.
func (s *statements) prepareInsert(ctx context.Context, into map[int]*sql.Stmt, table, columns string, n int) (err error) {
	if into[n] != nil {
		return nil
	}
	row := "(" + strings.TrimSuffix(strings.Repeat("?, ", strings.Count(columns, ",")+1), ", ") + ")"
	into[n], err = s.conn.PrepareContext(ctx, s.d.bind("INSERT INTO "+table+" ("+columns+") VALUES "+strings.TrimSuffix(strings.Repeat(row+", ", n), ", "))) //nolint:sqlclosecheck // it is closed with the connection
	return err
}
