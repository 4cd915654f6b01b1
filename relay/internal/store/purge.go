package store

import (
	"context"
	"database/sql"
	"errors"
)

// PurgeOld looks at the messages after an id, limit of them, and removes those that were accepted before cutoff and
// are at rest. It returns the id to go on from, 0 at the end.
func (s *Store) PurgeOld(ctx context.Context, after, cutoff int64, limit int) (next int64, err error) {
	rows, err := s.read.QueryContext(ctx, `SELECT m.id, m.accepted_at, o.state, EXISTS
		(SELECT 1 FROM outbox x WHERE x.message_id = m.id AND x.op > 0 AND x.state < 10)
		FROM messages m JOIN outbox o ON o.id = m.id WHERE m.id > ? ORDER BY m.id LIMIT ?`, after, limit)
	if err != nil {
		return 0, err
	}
	type row struct {
		id, accepted int64
		state        State
		busy         bool
	}
	found, err := collect(rows, func(r *row) []any { return []any{&r.id, &r.accepted, &r.state, &r.busy} })
	if err != nil {
		return 0, err
	}
	var old []int64
	for _, r := range found {
		if r.accepted >= cutoff {
			break // ids and times of acceptance rise together
		}
		next = r.id
		if r.state >= Sent && !r.busy {
			old = append(old, r.id)
		}
	}
	if len(found) < limit || next != found[len(found)-1].id {
		next = 0
	}
	return next, s.remove(ctx, old)
}

// remove removes messages with their outbox rows.
func (s *Store) remove(ctx context.Context, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	return s.Update(ctx, func(tx *Tx) error { return tx.remove(ids) })
}

func (tx *Tx) remove(ids []int64) error {
	return errors.Join(
		tx.Exec(`INSERT INTO settings (key, value) VALUES ('last_id', ?) ON CONFLICT DO UPDATE SET value = excluded.value`, tx.w.lastID).Error,
		tx.Exec(`UPDATE applications SET purged_accepted = purged_accepted + n.accepted, purged_sent = purged_sent + n.sent
			FROM (SELECT m.application_id AS id, count(*) AS accepted, sum(`+wasSent+`) AS sent
				FROM messages m JOIN outbox o ON o.id = m.id WHERE m.id IN ? GROUP BY m.application_id) AS n
			WHERE applications.id = n.id`, ids).Error,
		tx.Exec(`DELETE FROM outbox WHERE op > 0 AND message_id IN ?`, ids).Error,
		tx.Exec(`DELETE FROM outbox WHERE id IN ?`, ids).Error,
		tx.Exec(`DELETE FROM messages WHERE id IN ?`, ids).Error,
	)
}

// PurgeApplication removes some messages of an application that is marked as deleted, and the application itself with
// the last of them. It returns by how many entries the lines of the rooms are shorter.
func (s *Store) PurgeApplication(ctx context.Context, id int64, limit int) (rooms map[int64]int64, more bool, err error) {
	rooms = map[int64]int64{}
	err = s.Update(ctx, func(tx *Tx) error {
		var ids []int64
		if err := tx.Raw(`SELECT id FROM messages WHERE application_id = ? LIMIT ?`, id, limit).Scan(&ids).Error; err != nil {
			return err
		}
		if more = len(ids) == limit; len(ids) > 0 {
			if err := tx.countPending(ids, rooms); err != nil {
				return err
			}
			if err := tx.remove(ids); err != nil {
				return err
			}
		}
		if more {
			return nil
		}
		return errors.Join(
			tx.Exec(`DELETE FROM idempotency WHERE application_id = ?`, id).Error,
			tx.Exec(`DELETE FROM applications WHERE id = ? AND deleted_at > 0`, id).Error,
		)
	})
	return rooms, more, err
}

// countPending adds up by room what is on its way of some messages.
func (tx *Tx) countPending(ids []int64, rooms map[int64]int64) error {
	var counts []struct{ Room, N int64 }
	err := tx.Raw(`SELECT room, count(*) AS n FROM outbox WHERE state < 10 AND (id IN ? OR (op > 0 AND message_id IN ?)) GROUP BY room`, ids, ids).
		Scan(&counts).Error
	for _, c := range counts {
		rooms[c.Room] += c.N
	}
	return err
}

// Tidy removes idempotency keys from before keys, sessions that have ended, and counts of hours before hour.
func (s *Store) Tidy(ctx context.Context, now, keys, hour int64) error {
	var due bool
	err := s.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM idempotency WHERE created_at < ?) OR
		EXISTS (SELECT 1 FROM sessions WHERE expires_at < ?) OR EXISTS (SELECT 1 FROM stats WHERE hour < ?)`, keys, now, hour).Scan(&due)
	if err != nil && !errors.Is(err, sql.ErrNoRows) || !due {
		return err
	}
	return s.Update(ctx, func(tx *Tx) error {
		return errors.Join(
			tx.Exec(`DELETE FROM idempotency WHERE created_at < ?`, keys).Error,
			tx.Exec(`DELETE FROM sessions WHERE expires_at < ?`, now).Error,
			tx.Exec(`DELETE FROM stats WHERE hour < ?`, hour).Error,
		)
	})
}
