package store

import (
	"bytes"
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
	begin, commit, rollback, savepoint, undo, release, full, lazy *sql.Stmt

	sent, outcome, redacted, failure, key, addKey, stat, total *sql.Stmt

	messages, outbox map[int]*sql.Stmt // by number of rows
}

const (
	messageColumns = `id, application_id, accepted_at, priority, source, title, body, content_type, extras`
	outboxColumns  = `id, message_id, op, room, state, txn, queued_at`
)

func prepare(ctx context.Context, conn *sql.Conn) (*statements, error) {
	var errs []error
	stmt := func(text string) *sql.Stmt {
		s, err := conn.PrepareContext(ctx, text)
		if err != nil {
			errs = append(errs, fmt.Errorf("prepare %q: %w", text, err))
		}
		return s
	}
	s := &statements{
		begin: stmt(`BEGIN IMMEDIATE`), commit: stmt(`COMMIT`), rollback: stmt(`ROLLBACK`),
		savepoint: stmt(`SAVEPOINT one`), undo: stmt(`ROLLBACK TO one`), release: stmt(`RELEASE one`),
		full: stmt(`PRAGMA synchronous=FULL`), lazy: stmt(`PRAGMA synchronous=NORMAL`),
		sent: stmt(`UPDATE outbox SET state = 10, attempts = ?, event_id = ?, rested_at = ?, next_at = 0, error = '', code = '', wire = NULL WHERE id = ?`),
		outcome: stmt(`UPDATE outbox SET state = ?, attempts = ?, next_at = ?, step = ?, first_attempt_at = ?, device = ?, txn = ?,
			event_type = ?, wire = ?, error = ?, code = ?, event_id = ?, rested_at = ? WHERE id = ?`),
		redacted: stmt(`UPDATE outbox SET state = 14, error = '', code = '' WHERE id = ?`),
		failure:  stmt(`UPDATE outbox SET error = ? WHERE id = ?`),
		key:      stmt(`SELECT hash, message_id, priority, created_at FROM idempotency WHERE application_id = ? AND key = ?`),
		addKey:   stmt(`INSERT INTO idempotency (application_id, key, hash, message_id, priority, created_at) VALUES (?, ?, ?, ?, ?, ?)`),
		stat: stmt(`INSERT INTO stats (hour, application_id, accepted, sent, dead) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
			SET accepted = accepted + excluded.accepted, sent = sent + excluded.sent, dead = dead + excluded.dead`),
		total:    stmt(`UPDATE applications SET accepted = accepted + ?, sent = sent + ?, dead = dead + ?, last_used = max(last_used, ?) WHERE id = ?`),
		messages: map[int]*sql.Stmt{}, outbox: map[int]*sql.Stmt{},
	}
	for n := 1; n <= maxRows; n *= 2 {
		s.messages[n] = stmt(insert("messages", messageColumns, n))
		s.outbox[n] = stmt(insert("outbox", outboxColumns, n))
	}
	return s, errors.Join(errs...)
}

// insert returns an INSERT of n rows.
func insert(table, columns string, n int) string {
	row := "(" + strings.TrimSuffix(strings.Repeat("?, ", strings.Count(columns, ",")+1), ", ") + ")"
	return "INSERT INTO " + table + " (" + columns + ") VALUES " + strings.TrimSuffix(strings.Repeat(row+", ", n), ", ")
}

// storeMessages gives the messages their ids and writes them with their outbox rows.
func (w *writer) storeMessages(ctx context.Context, accepts []*request) error {
	fresh := make([]*Entry, 0, len(accepts))
	known := map[keyOf]*request{}
	for _, a := range accepts {
		a.receipt = Receipt{}
		if a.key != nil {
			if err := w.lookUp(ctx, a, known); err != nil {
				return err
			}
			if a.receipt.Replay || a.receipt.Conflict {
				continue
			}
		}
		w.lastID++
		e := a.entry
		e.ID, e.MessageID = w.lastID, w.lastID
		a.receipt = Receipt{ID: e.ID, Priority: e.Priority, AcceptedAt: e.AcceptedAt}
		fresh = append(fresh, e)
		if a.key == nil {
			continue
		}
		if _, err := w.sql.addKey.ExecContext(ctx, e.ApplicationID, a.key.Key, a.key.Hash, e.ID, e.Priority, e.AcceptedAt); err != nil {
			return err
		}
		known[keyOf{e.ApplicationID, a.key.Key}] = a
	}
	return w.insertEntries(ctx, fresh)
}

type keyOf struct {
	application int64
	key         string
}

// lookUp answers an acceptance whose key is known, from this batch or from the database.
func (w *writer) lookUp(ctx context.Context, a *request, known map[keyOf]*request) error {
	var hash []byte
	r := Receipt{}
	if k := known[keyOf{a.entry.ApplicationID, a.key.Key}]; k != nil {
		r, hash = k.receipt, k.key.Hash
	} else {
		err := w.sql.key.QueryRowContext(ctx, a.entry.ApplicationID, a.key.Key).Scan(&hash, &r.ID, &r.Priority, &r.AcceptedAt)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	if bytes.Equal(hash, a.key.Hash) {
		r.Replay = true
	} else {
		r.Conflict = true
	}
	a.receipt = r
	return nil
}

// insertEntries writes rows in as few statements as possible.
func (w *writer) insertEntries(ctx context.Context, entries []*Entry) error {
	args := make([]any, 0, 9*min(len(entries), maxRows))
	for n := maxRows; len(entries) > 0; {
		for n > len(entries) {
			n /= 2
		}
		args = args[:0]
		for _, e := range entries[:n] {
			args = append(args, e.ID, e.ApplicationID, e.AcceptedAt, e.Priority, e.Source, e.Title, e.Body, e.ContentType, null(e.Extras))
		}
		if _, err := w.sql.messages[n].ExecContext(ctx, args...); err != nil {
			return err
		}
		args = args[:0]
		for _, e := range entries[:n] {
			args = append(args, e.ID, e.MessageID, int64(e.Op), e.Room, int64(e.State), e.Txn, e.QueuedAt)
		}
		if _, err := w.sql.outbox[n].ExecContext(ctx, args...); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

func null(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// storeOutcomes writes what attempts have come to.
func (w *writer) storeOutcomes(ctx context.Context, outcomes []*Outcome) error {
	for _, o := range outcomes {
		if err := w.storeOutcome(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) storeOutcome(ctx context.Context, o *Outcome) error {
	e := &o.Entry
	if e.State == Sent && e.Error == "" {
		if _, err := w.sql.sent.ExecContext(ctx, e.Attempts, e.EventID, o.At, e.ID); err != nil {
			return err
		}
	} else {
		var rested int64
		if e.State >= Sent {
			rested = o.At
		}
		_, err := w.sql.outcome.ExecContext(ctx, int64(e.State), e.Attempts, e.NextAt, e.Step, e.FirstAttemptAt, e.Device, e.Txn,
			e.EventType, e.Wire, e.Error, e.Code, e.EventID, rested, e.ID)
		if err != nil {
			return err
		}
	}
	return w.storeTarget(ctx, o)
}

// storeTarget writes what a redaction means for the message's own row.
func (w *writer) storeTarget(ctx context.Context, o *Outcome) error {
	if o.TargetID == 0 {
		return nil
	}
	if o.Entry.State == Sent {
		_, err := w.sql.redacted.ExecContext(ctx, o.TargetID)
		return err
	}
	if o.Failure == "" {
		return nil
	}
	_, err := w.sql.failure.ExecContext(ctx, o.Failure, o.TargetID)
	return err
}
