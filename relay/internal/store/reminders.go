package store

import (
	"context"
	"errors"
	"strings"
	"time"

	"slipway/relay/internal/post"
)

// reminded is the source of reminders, by which they differ from other replies.
const reminded = "reminder"

// remindBatch is how many alerts one transaction reminds of.
const remindBatch = 50

// isReminded selects the alerts with a reminder that is due at a time, which it takes twice. A time further ahead than the pause
// between two reminders was set before the clock was set back.
const isReminded = `next_at > 0 AND (next_at <= ? OR next_at > ? + retry)`

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

// DueAlerts returns what [Store.Remind] would remind of.
func (s *Store) DueAlerts(ctx context.Context, now int64) (all []DueAlert, err error) {
	return all, s.rows.WithContext(ctx).Raw(`SELECT a.message_id, o.event_id, r.room_id FROM alerts a JOIN outbox o ON o.id = a.message_id JOIN rooms r ON r.id = o.room
		WHERE a.message_id IN (SELECT message_id FROM alerts WHERE `+isReminded+` ORDER BY next_at LIMIT ?)`, now, now, remindBatch).Scan(&all).Error
}

// Remind adds the reminders that are due, in one transaction with the times of the next ones. Only the delivering relay may call it.
func (s *Store) Remind(ctx context.Context, now int64) error {
	return s.Lead(ctx, func(tx *Tx) error {
		var due []int64
		err := tx.db.Raw(`SELECT message_id FROM alerts WHERE `+isReminded+` ORDER BY next_at LIMIT ?`, now, now, remindBatch).Scan(&due).Error
		for _, id := range due {
			err = errors.Join(err, tx.remind(id, now))
		}
		return err
	})
}

func (tx *Tx) remind(id, now int64) error {
	a, t, err := tx.alertAt(id)
	if err != nil {
		return err
	}
	shown, err := tx.shown(&t, t.Room)
	if err != nil {
		return err
	}
	waits, err := tx.remindersOf(id)
	if err != nil {
		return err
	}
	var app Application
	if err := tx.db.Where("id = ?", t.ApplicationID).Limit(1).Find(&app).Error; err != nil {
		return err
	}
	may, err := tx.maySend(app.ID, t.Room)
	if err != nil {
		return err
	}
	escalation := post.Escalation{After: app.EscalateAfter, To: strings.Fields(app.EscalateTo)}
	a, r := post.Remind(a, !shown || !may, t.State.Pending() || len(waits) > 0, escalation, now)
	if r.Send {
		err = tx.insertReminder(&t, &app, r, now)
	}
	if r.Expired {
		err = tx.annotate(&t, a.Unacknowledged(), now)
	}
	if err != nil {
		return err
	}
	return tx.saveAlert(&a)
}

// insertReminder adds a reminder: a reply in the thread of an alert's message, or a copy of it in another room.
func (tx *Tx) insertReminder(t *post.Entry, app *Application, r post.Reminder, now int64) error {
	e := t.Follow(post.KindReply, now)
	e.Place, e.Source, e.AcceptedAt = 0, reminded, now
	e.Content = post.Content{Body: r.Text, ContentType: "text/plain", Priority: t.Priority}
	switch {
	case strings.HasPrefix(r.To, "@"):
		e.Mentions, e.Body = r.To, r.To+": "+r.Text
	case r.To != "":
		var room int64
		err := tx.db.Raw(`SELECT r.id FROM rooms r JOIN applications b ON b.room_id = r.id WHERE b.owner_id = ? AND b.deleted_at = 0 AND (r.address = ? OR r.room_id = ?)
			ORDER BY r.id LIMIT 1`, app.OwnerID, r.To, r.To).Scan(&room).Error
		if err != nil {
			return err
		}
		may, err := tx.maySend(app.ID, room)
		if err != nil {
			return err
		}
		if may && room != t.Room {
			e.Room, e.Content, e.Thread = room, t.Content, ""
			e.Note, e.Attachments = r.Text, ""
		}
	}
	tx.changed(e.Room, Added)
	return tx.sql.insertEntries(tx.ctx, &e)
}

// remindersOf returns the reminders of a message that are on their way.
func (tx *Tx) remindersOf(message int64) (all []post.Entry, err error) {
	return all, tx.db.Table("outbox").Where("target > 0 AND target = ? AND kind = ? AND source = ? AND final_at = 0", message, post.KindReply, reminded).Find(&all).Error
}

// annotate gives a message another note. The edit says nothing new to those who read messages elsewhere, so its priority is normal.
func (tx *Tx) annotate(t *post.Entry, note string, now int64) error {
	if t.Note == note {
		return nil
	}
	e := t.EditTo(t.Content, now)
	e.Place, e.AcceptedAt, e.Note, e.Attachments = 0, now, note, ""
	priority, scale := t.Priority, t.GotifyScale
	if !t.Replaceable() {
		e.Priority, e.GotifyScale = min(priority, 0), 0
	}
	if _, err := tx.change(&Accept{Entry: e}, t); err != nil {
		return err
	}
	tx.changed(t.Room, Altered)
	t.Priority, t.GotifyScale = priority, scale
	return tx.saveContent(t)
}

// Acknowledge records that by acknowledged the alert of a message and withdraws its waiting reminders. It reports whether
// the alert was open and not yet acknowledged.
func (tx *Tx) Acknowledge(message int64, by string, now int64) (changed bool, err error) {
	a, t, err := tx.alertAt(message)
	if IsMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if a, changed = post.Acknowledge(a, by, now); !changed {
		return false, nil
	}
	return true, errors.Join(tx.annotate(&t, a.Standing(), now), tx.withdrawReminders(message, now), tx.saveAlert(&a))
}

// StopReminding ends the reminders of a message that nobody has acknowledged.
func (tx *Tx) StopReminding(message, now int64) error {
	a, _, err := tx.alertAt(message)
	if err != nil {
		return err
	}
	a = post.StopReminders(a, now)
	return errors.Join(tx.withdrawReminders(message, now), tx.saveAlert(&a))
}

func (tx *Tx) withdrawReminders(message, now int64) error {
	waits, err := tx.remindersOf(message)
	for _, r := range waits {
		tx.changed(r.Room, Altered)
		_, failed := tx.step(r, post.Needless{}, now)
		err = errors.Join(err, failed)
	}
	return err
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
func (s *Store) OpenAlerts(ctx context.Context, owner, application int64, limit int) (all []post.Alert, err error) {
	q := s.rows.WithContext(ctx).Table("alerts").Where("closed_at = 0 AND application_id IN (SELECT id FROM applications WHERE deleted_at = 0 AND (owner_id = ? OR ? = 0))", owner, owner)
	if application != 0 {
		q = q.Where("application_id = ?", application)
	}
	q = q.Where(`NOT EXISTS (SELECT 1 FROM outbox o WHERE o.id = alerts.message_id AND o.next_at > 0 AND o.state = ` + isQueued + `)`)
	return all, q.Order("message_id DESC").Limit(limit).Find(&all).Error
}

// History returns what followed a message in its room: edits and replies, in order.
func (s *Store) History(ctx context.Context, message int64, limit int) (all []post.Entry, err error) {
	return all, s.rows.WithContext(ctx).Table("outbox").Where("target > 0 AND target = ? AND kind IN ?", message, []post.Kind{post.KindEdit, post.KindReply}).
		Order("id").Limit(limit).Find(&all).Error
}
