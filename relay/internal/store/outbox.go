package store

import (
	"context"
	"database/sql"
	"errors"

	"slipway/relay/internal/message"
)

// Window is how many messages of a room may at most be sent without their outcome being committed. The deliverer keeps
// within it.
const Window = 64

// place orders a room's entries: a follow-up has the place of its message.
const place = `(CASE WHEN o.after > 0 THEN o.after ELSE o.id END)`

const pendingColumns = `o.id, o.kind, o.after, o.room, o.txn, o.queued_at, o.state, o.attempts, o.next_at, o.first_attempt_at, o.device,
	o.event_type, o.wire, o.cut, o.error, o.code, o.event_id, m.application_id, m.accepted_at, m.priority, m.source, m.title, m.body,
	m.content_type, coalesce(u.matrix_id, ''), coalesce(a.mention, ''), a.id IS NULL OR a.deleted_at > 0, coalesce(t.txn, ''), coalesce(t.first_attempt_at, 0),
	coalesce(CASE a.show_sender WHEN 'always' THEN a.name WHEN 'auto' THEN
		(SELECT a.name FROM applications b WHERE b.room_id IN ` + sameRoom + ` AND b.id <> a.id AND b.deleted_at = 0 LIMIT 1) END, '')`

// sameRoom are the rows of a room that applications name differently, by its id and by its aliases.
const sameRoom = `(SELECT r.id FROM rooms own JOIN rooms r ON r.id = own.id OR r.room_id = own.room_id AND own.room_id <> '' WHERE own.id = ?)`

// Pending returns the first entries of a room that are on their way, in order: at most limit, and no more once they take
// up maxBytes. more says that it stopped early. Entries in skip are passed over.
func (s *Store) Pending(ctx context.Context, room int64, limit, maxBytes int, skip map[int64]int64) (entries []*message.Entry, more bool, err error) {
	ctx, cancel := s.read.bound(ctx)
	defer cancel()
	rows, err := s.pending.QueryContext(ctx, room, room, limit+1+len(skip))
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = rows.Close() }()
	size := 0
	for rows.Next() {
		e := &message.Entry{}
		if err := rows.Scan(
			&e.ID, &e.Kind, &e.After, &e.Room, &e.Txn, &e.QueuedAt, &e.State, &e.Attempts, &e.NextAt, &e.FirstAttemptAt, &e.Device,
			&e.EventType, &e.Wire, &e.Cut, &e.Error, &e.Code, &e.EventID, &e.ApplicationID, &e.AcceptedAt, &e.Priority, &e.Source, &e.Title,
			&e.Body, &e.ContentType, &e.Mention, &e.Whom, &e.Deleted, &e.TargetTxn, &e.TargetAt, &e.Sender,
		); err != nil {
			return nil, false, err
		}
		if _, ok := skip[e.ID]; ok {
			continue
		}
		if len(entries) == limit || size >= maxBytes {
			return entries, true, nil
		}
		size += e.Size()
		entries = append(entries, e)
	}
	return entries, false, rows.Err()
}

func (d *dialect) preparePending(ctx context.Context, db *sql.DB) (*sql.Stmt, error) {
	return db.PrepareContext(ctx, d.bind(`SELECT `+pendingColumns+` FROM outbox o `+d.by("outbox_pending")+`
		`+d.crossJoin+` messages m ON m.id = `+place+`
		LEFT JOIN applications a ON a.id = m.application_id LEFT JOIN users u ON u.id = a.owner_id LEFT JOIN outbox t ON t.id = o.after AND o.after > 0
		WHERE o.room = ? AND o.final_at = 0 ORDER BY `+place+`, o.id LIMIT ?`))
}

// Backlog is what waits for one room.
type Backlog struct {
	Room    int64
	Waiting int64
	Oldest  int64 // when the first of them was queued
}

// Backlogs returns for each room with something on its way how much it is.
func (s *Store) Backlogs(ctx context.Context) (map[int64]Backlog, error) {
	var all []Backlog
	err := s.rows.WithContext(ctx).Raw(`SELECT b.room, b.waiting,
		(SELECT o.queued_at FROM outbox o WHERE o.room = b.room AND o.final_at = 0 ORDER BY ` + place + `, o.id LIMIT 1) AS oldest
		FROM (SELECT room, count(*) AS waiting FROM outbox ` + s.d.by("outbox_pending") + ` WHERE final_at = 0 GROUP BY room) AS b`).Scan(&all).Error
	byRoom := make(map[int64]Backlog, len(all))
	for _, b := range all {
		byRoom[b.Room] = b
	}
	return byRoom, err
}

// Waiting returns how many entries are on their way. Between two counts in the database it keeps count of what is accepted and
// sent, so that it costs nothing to ask for each message.
func (s *Store) Waiting(ctx context.Context) (int64, error) {
	return s.feed.depth.get(func() (n int64, err error) {
		return n, s.read.QueryRowContext(ctx, `SELECT count(*) FROM outbox `+s.d.by("outbox_pending")+` WHERE final_at = 0`).Scan(&n)
	})
}

// Oldest returns when the oldest entry that is on its way was queued, of those that come next in their rooms; 0 without any.
// It looks at one entry a room, however many wait.
func (s *Store) Oldest(ctx context.Context) (at int64, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT coalesce(min(x.oldest), 0) FROM (SELECT
		(SELECT o.queued_at FROM outbox o `+s.d.by("outbox_pending")+` WHERE o.room = r.id AND o.final_at = 0 ORDER BY `+place+`, o.id LIMIT 1) AS oldest
		FROM rooms r) AS x`).Scan(&at)
	return at, err
}

// MarkSuspects is called after a start that follows no orderly end: the first entries of each room, as many as may
// have been sent without a trace, count as attempted by that device from the time of their acceptance on. It reads no more of a
// room than that, however much waits there.
func (s *Store) MarkSuspects(ctx context.Context, device string) error {
	return s.Lead(ctx, func(tx *Tx) error {
		var rooms []int64
		if err := tx.db.Raw(`SELECT id FROM rooms ORDER BY id`).Scan(&rooms).Error; err != nil {
			return err
		}
		for _, room := range rooms {
			err := tx.exec(`UPDATE outbox SET device = ?, first_attempt_at = queued_at WHERE first_attempt_at = 0 AND id IN
				(SELECT o.id FROM outbox o `+s.d.by("outbox_pending")+` WHERE o.room = ? AND o.final_at = 0 ORDER BY `+place+`, o.id LIMIT ?)`, device, room, Window)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Requeue puts a message that is final in one of the states from on its way again, under a new transaction id if txn is
// not empty. It answers false if its state is another. A removal that waits is void.
func (tx *Tx) Requeue(id, now int64, txn string, from ...message.State) (bool, error) {
	set := `state = 'queued', queued_at = ?, next_at = 0, final_at = 0, error = '', code = ''`
	args := []any{now}
	if txn != "" {
		set += `, txn = ?, first_attempt_at = 0, device = '', event_type = '', wire = NULL, cut = ?, event_id = ''`
		args = append(args, txn, false)
	}
	r := tx.db.Exec(`UPDATE outbox SET `+set+` WHERE id = ? AND kind = 0 AND state IN ?`, append(args, id, from)...)
	if r.Error != nil || r.RowsAffected == 0 {
		return false, r.Error
	}
	if err := tx.exec(`UPDATE outbox SET state = 'cancelled', final_at = ? WHERE after = ? AND kind = 1 AND final_at = 0`, now, id); err != nil {
		return false, err
	}
	return true, tx.altered(id, Retry)
}

// Withdraw cancels a message whose event is not sent, and has the event of one that is sent removed, together with the
// file behind it. It answers what the message's state was. Of a message that was attempted without an answer nobody knows
// whether it arrived: its error says so, and its event is looked for and removed.
func (tx *Tx) Withdraw(id, now int64) (was message.State, err error) {
	var row struct {
		State          message.State
		Room           int64
		EventID        string
		FirstAttemptAt int64
	}
	if err := tx.take(&row, `SELECT state, room, event_id, first_attempt_at FROM outbox WHERE id = ? AND kind = 0`+tx.w.d.forUpdate, id); err != nil {
		return "", err
	}
	switch row.State {
	case message.StateCancelled, message.StateRedacted:
		return row.State, nil
	case message.StateSent:
		return row.State, errors.Join(tx.removeSent(id, row.Room, now), tx.altered(id, Altered))
	}
	doubt := ""
	if row.FirstAttemptAt > 0 {
		doubt = message.InDoubt
		if err := tx.removeUnknown(id, row.Room, now); err != nil {
			return "", err
		}
	}
	tx.final = append(tx.final, id)
	err = tx.exec(`UPDATE outbox SET state = 'cancelled', final_at = ?, next_at = 0, wire = NULL, code = '', error = ? WHERE id = ?`, now, doubt, id)
	return row.State, errors.Join(err, tx.altered(id, Altered))
}

// removeSent ends what was still to follow a message, and adds the removals of its events. One of those that were to follow may
// be in the room without our knowing: it is looked for behind the others.
func (tx *Tx) removeSent(id, room, now int64) error {
	var doubtful int64
	err := tx.db.Raw(`SELECT count(*) FROM outbox WHERE after = ? AND kind IN (2, 3) AND final_at = 0 AND first_attempt_at > 0`, id).Scan(&doubtful).Error
	if err != nil {
		return err
	}
	if err := tx.exec(`UPDATE outbox SET state = 'cancelled', final_at = ? WHERE after = ? AND kind IN (2, 3) AND final_at = 0`, now, id); err != nil {
		return err
	}
	if err := tx.remove(id, now); err != nil || doubtful == 0 {
		return err
	}
	return tx.removeUnknown(id, room, now)
}

// removeUnknown adds the removal of an event of a message that may be in the room, and has to be looked for there.
func (tx *Tx) removeUnknown(id, room, now int64) error {
	return tx.sql.followUp(tx.ctx, &message.Entry{Kind: message.Redact, After: id, Room: room, Txn: message.NewTxn(), QueuedAt: now})
}

// remove adds the removals of a message's events, unless they are there.
func (tx *Tx) remove(id, now int64) error {
	var events []struct {
		Room    int64
		EventID string
	}
	err := tx.db.Raw(`SELECT room, event_id FROM outbox WHERE (id = ? OR after = ?) AND kind <> 1 AND state = 'sent' AND event_id <> ''
		AND NOT EXISTS (SELECT 1 FROM outbox r WHERE r.after = ? AND r.kind = 1 AND r.final_at = 0) ORDER BY id`, id, id, id).Scan(&events).Error
	for _, ev := range events {
		if err == nil {
			err = tx.sql.followUp(tx.ctx, &message.Entry{
				Kind: message.Redact, After: id, Room: ev.Room, Txn: message.NewTxn(), QueuedAt: now, EventID: ev.EventID,
			})
		}
	}
	return err
}

// altered notes that the entries of a message's room have changed.
func (tx *Tx) altered(id int64, kind ChangeKind) error {
	var room int64
	if err := tx.db.Raw(`SELECT room FROM outbox WHERE id = ?`, id).Scan(&room).Error; err != nil {
		return err
	}
	tx.changes = append(tx.changes, Change{Room: room, Kind: kind})
	return nil
}
