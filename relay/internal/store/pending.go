package store

import (
	"context"
	"database/sql"
)

// suspects is how many messages of a room may at most have been sent without their outcome being stored. The
// worker keeps within it.
const suspects = 64

// Window is how many outcomes of one room may at most be reported and not yet committed.
const Window = suspects

const entryColumns = `o.id, o.message_id, o.op, m.application_id, o.room, o.txn, m.accepted_at, o.queued_at, m.priority,
	m.source, m.title, m.body, m.content_type, coalesce(m.extras, ''), o.state, o.attempts, o.next_at, o.step,
	o.first_attempt_at, o.device, o.event_type, o.wire, o.error, o.code, o.event_id`

// Backlog is what waits for one room.
type Backlog struct {
	Room    int64
	Waiting int64
	Oldest  int64 // when the first of them was accepted
	Last    int64 // id of the last of them
}

// Backlogs tells for each room with something on its way how much it is.
func (s *Store) Backlogs(ctx context.Context) ([]Backlog, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT b.room, b.waiting, m.accepted_at, b.last FROM
		(SELECT room, count(*) AS waiting, min(id) AS first, max(id) AS last FROM outbox INDEXED BY outbox_pending WHERE state < 10 GROUP BY room) b
		JOIN outbox o ON o.id = b.first JOIN messages m ON m.id = o.message_id`)
	if err != nil {
		return nil, err
	}
	return collect(rows, func(b *Backlog) []any { return []any{&b.Room, &b.Waiting, &b.Oldest, &b.Last} })
}

// Pending returns entries of a room that are on their way, in order, with ids above after: at most limit, and no
// more once they take up maxBytes. more tells that it stopped early.
func (s *Store) Pending(ctx context.Context, room, after int64, limit, maxBytes int) (entries []*Entry, more bool, err error) {
	rows, err := s.read.QueryContext(ctx, `SELECT `+entryColumns+` FROM outbox o INDEXED BY outbox_pending
		CROSS JOIN messages m ON m.id = o.message_id WHERE o.room = ? AND o.id > ? AND o.state < 10 ORDER BY o.id LIMIT ?`,
		room, after, limit+1)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = rows.Close() }()
	size := 0
	for rows.Next() {
		if len(entries) == limit || size >= maxBytes {
			return entries, true, nil
		}
		e := &Entry{}
		if err := rows.Scan(e.fields()...); err != nil {
			return nil, false, err
		}
		size += e.Size()
		entries = append(entries, e)
	}
	return entries, false, rows.Err()
}

// fields are where the entryColumns go.
func (e *Entry) fields() []any {
	return []any{
		&e.ID, &e.MessageID, &e.Op, &e.ApplicationID, &e.Room, &e.Txn, &e.AcceptedAt, &e.QueuedAt, &e.Priority,
		&e.Source, &e.Title, &e.Body, &e.ContentType, &e.Extras, &e.State, &e.Attempts, &e.NextAt, &e.Step,
		&e.FirstAttemptAt, &e.Device, &e.EventType, &e.Wire, &e.Error, &e.Code, &e.EventID,
	}
}

// MarkSuspects is called after a start that follows no orderly end: the first entries of each room, as many as may
// have been sent without a trace, count as attempted by that device from the time of their acceptance on.
func (s *Store) MarkSuspects(ctx context.Context, device string) error {
	return s.Update(ctx, func(tx *Tx) error {
		return tx.Exec(`UPDATE outbox SET device = ?, first_attempt_at = queued_at WHERE first_attempt_at = 0 AND id IN
			(SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY room ORDER BY id) AS place
				FROM outbox INDEXED BY outbox_pending WHERE state < 10) WHERE place <= ?)`, device, suspects).Error
	})
}

// collect reads all rows into values; fields names where a value's columns go.
func collect[T any](rows *sql.Rows, fields func(*T) []any) ([]T, error) {
	defer func() { _ = rows.Close() }()
	var all []T
	for rows.Next() {
		var v T
		if err := rows.Scan(fields(&v)...); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}
