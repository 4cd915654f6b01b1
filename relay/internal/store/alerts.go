package store

import (
	"context"
	"time"

	"slipway/relay/internal/post"
)

// Alert returns the last alert of a key with its message, and keeps others from changing them; zero values if there is none. The
// relay's alerts about an application are separate from the application's own.
func (tx *Tx) Alert(application int64, key string, own bool) (a post.Alert, m post.Entry, err error) {
	var id int64
	err = tx.db.Raw(`SELECT a.message_id FROM alerts a JOIN outbox o ON o.id = a.message_id WHERE a.application_id = ? AND a.key = ? AND a.key <> ''
		AND (o.source = ?) = ? ORDER BY a.message_id DESC LIMIT 1`, application, key, post.SourceRelay, own).Scan(&id).Error
	if err != nil || id == 0 {
		return a, m, err
	}
	return tx.AlertOf(id)
}

// AlertOf returns the alert of a message with it, and keeps others from changing them. If there is none, [IsMissing] is true for the
// error; the message is returned if there is one.
func (tx *Tx) AlertOf(message int64) (a post.Alert, m post.Entry, err error) {
	if m, err = tx.Entry(message); err != nil {
		return a, m, err
	}
	return a, m, tx.db.Clauses(forUpdate).Table("alerts").Where("message_id = ?", message).Take(&a).Error
}

// SaveAlert stores the alert of its message.
func (tx *Tx) SaveAlert(a post.Alert) error {
	tx.timed = true
	return tx.upsert("alerts", &a, "message_id")
}

// DeleteAlert removes the alert of a message.
func (tx *Tx) DeleteAlert(message int64) error {
	return tx.exec(`DELETE FROM alerts WHERE message_id = ?`, message)
}

// CloseAlert records that nobody hears of the alert of a message any more.
func (tx *Tx) CloseAlert(message, at int64) error {
	return tx.exec(`UPDATE alerts SET closed_at = ?, next_at = 0 WHERE message_id = ? AND closed_at = 0`, at, message)
}

// Alert returns the alert of a message; it is [IsMissing] without one.
func (s *Store) Alert(ctx context.Context, message int64) (a post.Alert, err error) {
	return a, s.rows.WithContext(ctx).Table("alerts").Where("message_id = ?", message).Take(&a).Error
}

// AlertNamed returns the message of an application's last alert with a key; 0 if there is none.
func (s *Store) AlertNamed(ctx context.Context, application int64, key string) (message int64, err error) {
	err = s.queryRow(ctx, `SELECT coalesce((SELECT a.message_id FROM alerts a JOIN outbox o ON o.id = a.message_id
		WHERE a.application_id = ? AND a.key = ? AND a.key <> '' AND o.source <> ? ORDER BY a.message_id DESC LIMIT 1), 0)`, application, key, post.SourceRelay).Scan(&message)
	return message, err
}

// OpenAlerts returns the alerts that are not over, newest first, without those of delayed messages, of an owner's applications or, at 0, of all.
// Their messages have IDs below before, unless it is 0.
func (s *Store) OpenAlerts(ctx context.Context, owner, application, before int64, limit int) (all []post.Alert, err error) {
	q := s.rows.WithContext(ctx).Table("alerts").Where("closed_at = 0 AND application_id IN (SELECT id FROM applications WHERE deleted_at = 0 AND (owner_id = ? OR ? = 0))", owner, owner)
	if application != 0 {
		q = q.Where("application_id = ?", application)
	}
	if before != 0 {
		q = q.Where("message_id < ?", before)
	}
	q = q.Where(`NOT EXISTS (SELECT 1 FROM outbox o WHERE o.id = alerts.message_id AND o.next_at > 0 AND o.state = ` + isQueued + `)`)
	return all, q.Order("message_id DESC").Limit(limit).Find(&all).Error
}

// OpenAlertOf returns the message of the open alert that an event in a room belongs to and that nobody has acknowledged; 0 if
// there is none.
func (s *Store) OpenAlertOf(ctx context.Context, roomID, eventID string) (message int64, err error) {
	err = s.queryRow(ctx, `SELECT coalesce((SELECT a.message_id FROM alerts a WHERE a.closed_at = 0 AND a.acknowledged_at = 0
		AND (EXISTS (SELECT 1 FROM outbox o JOIN rooms r ON r.id = o.room WHERE o.id = a.message_id AND o.event_id = ? AND r.room_id = ?)
			OR EXISTS (SELECT 1 FROM outbox o JOIN rooms r ON r.id = o.room WHERE o.target > 0 AND o.target = a.message_id AND o.event_id = ? AND r.room_id = ?)) LIMIT 1), 0)`,
		eventID, roomID, eventID, roomID).Scan(&message)
	return message, err
}

// remindBatch is how many alerts are due at once.
const remindBatch = 50

// NextReminder returns when the next reminder is due; 0 if none is.
func (s *Store) NextReminder(ctx context.Context) (at int64, err error) {
	now := time.Now().UnixMilli()
	return at, s.queryRow(ctx, `SELECT coalesce(min(CASE WHEN next_at > ? + retry THEN ? ELSE next_at END), 0) FROM alerts WHERE next_at > 0`, now, now).Scan(&at)
}

// DueAlert is an alert with a reminder that is due, and where its message is.
type DueAlert struct {
	MessageID       int64
	RoomID, EventID string
}

// DueAlerts returns the first of the alerts with a reminder that is due. A time further ahead than the pause between two reminders was set
// before the clock was set back.
func (s *Store) DueAlerts(ctx context.Context, now int64) (all []DueAlert, err error) {
	return all, s.rows.WithContext(ctx).Raw(`SELECT a.message_id, o.event_id, r.room_id FROM alerts a JOIN outbox o ON o.id = a.message_id JOIN rooms r ON r.id = o.room
		WHERE a.message_id IN (SELECT message_id FROM alerts WHERE next_at > 0 AND (next_at <= ? OR next_at > ? + retry) ORDER BY next_at LIMIT ?)`, now, now, remindBatch).Scan(&all).Error
}

// Reminders returns the reminders of a message that are pending.
func (tx *Tx) Reminders(message int64) (all []post.Entry, err error) {
	return all, tx.db.Table("outbox").Where("target > 0 AND target = ? AND kind = ? AND source = ? AND final_at = 0", message, post.KindReply, post.SourceReminder).Find(&all).Error
}
