package store

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"slipway/relay/internal/post"
)

// related holds messages that may concern an earlier one: a report of an alert, an edit, or a message that a digest may collect.
func (a *Accept) related() bool {
	return a.Report != nil || a.Entry.Kind == post.KindEdit || a.Window > 0
}

// relate stores a message that may change an earlier one instead.
func (tx *Tx) relate(a *Accept) error {
	if a.Window > 0 {
		return tx.collect(a)
	}
	if a.Report != nil {
		return tx.report(a)
	}
	t, err := tx.loadEntry(a.Entry.Target)
	if err == nil {
		a.Gone, err = tx.withdrawn(&t)
	}
	if IsMissing(err) {
		a.Gone, err = true, nil
	}
	if err != nil || a.Gone {
		return err
	}
	a.Entry.Note, a.Entry.Resolves = t.Note, t.Resolves
	_, err = tx.change(a, &t)
	return err
}

// report stores what the report of an alert makes of it.
func (tx *Tx) report(a *Accept) error {
	e := &a.Entry
	known, t, err := tx.alert(e.ApplicationID, e.Key, e.Source == post.SourceRelay)
	if err == nil && known.MessageID == 0 && a.Names != 0 {
		known, t, err = tx.alertOf(a)
	}
	if err != nil {
		return err
	}
	if a.Crowd != post.CrowdAlone {
		if a.Skipped, err = tx.skips(a, &known); err != nil || a.Skipped {
			return err
		}
	}
	known.ApplicationID, known.Key = e.ApplicationID, e.Key
	if t.Delayed() && !a.Report.Resolves {
		return tx.reschedule(a, &known, &t)
	}
	shown, err := tx.shown(&t, e.Room)
	if err != nil {
		return err
	}
	if e.NextAt != 0 { // it will be a message of its own: what the room has now isn't so any more
		if shown = false; known.MessageID != 0 {
			err = tx.closeAlert(known.MessageID, e.AcceptedAt)
		}
	}
	if err != nil {
		return err
	}
	now, d := post.TakeReport(known, shown, *a.Report, a.Lifecycle, e.AcceptedAt)
	e.Note = strings.TrimSpace(d.Note + " " + e.Note)
	switch d.Action {
	case post.ActionIgnore:
		a.Replay, e.ID, e.AcceptedAt = true, known.MessageID, t.AcceptedAt
	case post.ActionStart:
		if err = tx.group(a); err != nil {
			return err
		}
		if err = tx.sql.insertEntries(tx.ctx, e); err == nil && known.MessageID != 0 && now.MessageID != 0 {
			err = tx.exec(`DELETE FROM alerts WHERE message_id = ?`, known.MessageID) // it moves on to the next message
		} else if err == nil && known.MessageID != 0 {
			err = tx.closeAlert(known.MessageID, e.AcceptedAt) // its end was lost
		}
		now.MessageID = e.ID
	case post.ActionChange:
		err = tx.changeAlert(a, &t, d.Ring)
	case post.ActionReply:
		err = tx.reply(e, &t, d.Ring)
	}
	if err == nil && d.React {
		err = tx.react(e)
	}
	if err != nil {
		return err
	}
	return tx.saveAlert(&now)
}

// skips reports whether a report has no message and no edit: the message of its group has its words, or is not needed.
func (tx *Tx) skips(a *Accept, known *post.Alert) (bool, error) {
	open := known.MessageID != 0 && known.ClosedAt == 0
	switch {
	case open || a.Crowd == post.CrowdWhole:
		return false, nil
	case a.Crowd == post.CrowdWholeIfOpen || a.Crowd == post.CrowdOneOfMany:
		return true, nil
	}
	whole, _, err := tx.alert(a.Entry.ApplicationID, a.CrowdKey, false)
	return whole.MessageID != 0 && whole.ClosedAt == 0, err
}

// reschedule gives a delayed message the content and the time of a later report with its key, which may be now.
func (tx *Tx) reschedule(a *Accept, known *post.Alert, t *post.Entry) error {
	e := &a.Entry
	a.Altered = true
	t.Revise(e.Content, e.AcceptedAt)
	err := tx.saveContent(t)
	if err == nil {
		err = tx.exec(`UPDATE outbox SET room = ?, queued_at = ?, next_at = ? WHERE id = ?`, e.Room, e.QueuedAt, e.NextAt, t.ID)
	}
	if err != nil {
		return err
	}
	e.ID, known.MessageID = t.ID, t.ID
	known.BeganAt, known.ChangedAt, known.ClosedAt, known.Times = e.QueuedAt, e.AcceptedAt, 0, 1
	known.Priority, known.Said = e.Priority, a.Report.Digest
	return tx.saveAlert(known)
}

// alertOf returns the alert of the message that a report names by its number, as if it had begun one if it has none; zero values if there is no
// such message, or it is a digest, which others are in too.
func (tx *Tx) alertOf(a *Accept) (known post.Alert, t post.Entry, err error) {
	e := &a.Entry
	t, err = tx.loadEntry(a.Names)
	if IsMissing(err) || err == nil && (t.Kind != post.KindMessage || t.ApplicationID != e.ApplicationID || t.Source == post.SourceRelay || t.Source == post.SourceDigest) {
		return post.Alert{}, post.Entry{}, nil
	}
	if err != nil {
		return known, t, err
	}
	err = tx.db.Clauses(forUpdate).Table("alerts").Where("message_id = ?", t.ID).Take(&known).Error
	if IsMissing(err) {
		known, err = post.Alert{MessageID: t.ID, BeganAt: t.AcceptedAt, Times: 1, Priority: t.Priority}, nil
	}
	if known.Key != "" {
		e.Key = known.Key
	}
	return known, t, err
}

// react adds the reaction that acknowledges an alert to the message of an entry.
func (tx *Tx) react(e *post.Entry) error {
	r := e.Follow(post.KindReaction, e.QueuedAt)
	r.Body = post.AckReaction
	return tx.sql.insertEntries(tx.ctx, &r)
}

// shown reports whether a message is in a room, or on its way there, and isn't withdrawn.
func (tx *Tx) shown(t *post.Entry, room int64) (bool, error) {
	if t.ID == 0 || t.Room != room || !t.State.Editable() {
		return false, nil
	}
	gone, err := tx.withdrawn(t)
	return !gone, err
}

// withdrawn reports whether a message was withdrawn, perhaps with its removal still to come.
func (tx *Tx) withdrawn(t *post.Entry) (yes bool, err error) {
	if t.State.Withdrawn() {
		return true, nil
	}
	return yes, tx.db.Raw(`SELECT EXISTS (SELECT 1 FROM outbox WHERE target = ? AND target > 0 AND kind = ?)`, t.ID, post.KindRedaction).Scan(&yes).Error
}

// alert returns the last alert of a key with its message, and keeps others from changing them; zero values if there is none. The
// relay's alerts about an application are separate from the application's own.
func (tx *Tx) alert(application int64, key string, own bool) (a post.Alert, t post.Entry, err error) {
	var id int64
	err = tx.db.Raw(`SELECT a.message_id FROM alerts a JOIN outbox o ON o.id = a.message_id WHERE a.application_id = ? AND a.key = ? AND a.key <> ''
		AND (o.source = ?) = ? ORDER BY a.message_id DESC LIMIT 1`, application, key, post.SourceRelay, own).Scan(&id).Error
	if err != nil || id == 0 {
		return a, t, err
	}
	return tx.alertAt(id)
}

// alertAt returns an alert with its message, and keeps others from changing them.
func (tx *Tx) alertAt(message int64) (a post.Alert, t post.Entry, err error) {
	if t, err = tx.loadEntry(message); err != nil {
		return a, t, err
	}
	return a, t, tx.db.Clauses(forUpdate).Table("alerts").Where("message_id = ?", message).Take(&a).Error
}

// saveAlert stores an alert.
func (tx *Tx) saveAlert(a *post.Alert) error { return tx.upsert("alerts", a, "message_id") }

// closeAlert records that nobody hears of an alert any more: its message is withdrawn.
func (tx *Tx) closeAlert(message, at int64) error {
	return tx.exec(`UPDATE alerts SET closed_at = ?, next_at = 0 WHERE message_id = ? AND closed_at = 0`, at, message)
}

// group puts the message of an alert into the thread of its group, or a new one if all other alerts of the group are over.
func (tx *Tx) group(a *Accept) error {
	if a.Group == "" {
		return nil
	}
	e, prefix := &a.Entry, "group:"+a.Group+":"
	e.Thread = ""
	err := tx.db.Raw(`SELECT o.thread FROM alerts a JOIN outbox o ON o.id = a.message_id WHERE a.application_id = ? AND o.room = ? AND o.thread LIKE ?
		AND (a.closed_at = 0 OR a.closed_at >= ?) ORDER BY a.message_id DESC LIMIT 1`,
		e.ApplicationID, e.Room, prefix+"%", e.AcceptedAt-post.FlapWindow.Milliseconds()).Scan(&e.Thread).Error
	if e.Thread == "" {
		e.Thread = prefix + strconv.FormatInt(e.AcceptedAt, 10)
	}
	return err
}

// ThreadRoot returns the event that begins a thread in a room; "" if there is none. It is taken from the newest message of the thread
// with an id below before that was sent after a time, or from the message before itself if that is a reply.
func (s *Store) ThreadRoot(ctx context.Context, application int64, thread string, room, before, after int64) (eventID string, err error) {
	err = s.queryRow(ctx, `SELECT coalesce((SELECT CASE WHEN root <> '' THEN root ELSE event_id END FROM outbox WHERE application_id = ? AND thread = ? AND thread <> ''
		AND kind`+isMessage+` AND room = ? AND (id < ? OR id = ? AND root <> '') AND state = `+isSent+` AND final_at > ? ORDER BY id DESC LIMIT 1), '')`,
		application, thread, room, before, before, after).Scan(&eventID)
	return eventID, err
}

// LatestInThread returns the newest event before an entry that is in its thread, or that answers the same message; "" if none was sent
// after a time.
func (s *Store) LatestInThread(ctx context.Context, e *post.Entry, after int64) (eventID string, err error) {
	const rest = ` AND room = ? AND id < ? AND event_id <> '' AND final_at > ? ORDER BY id DESC LIMIT 1), '')`
	if e.Thread == "" {
		err = s.queryRow(ctx, `SELECT coalesce((SELECT event_id FROM outbox WHERE target = ? AND target > 0 AND kind = `+number(post.KindReply)+` AND state = `+isSent+rest,
			e.Target, e.Room, e.ID, after).Scan(&eventID)
		return eventID, err
	}
	err = s.queryRow(ctx, `SELECT coalesce((SELECT event_id FROM outbox WHERE application_id = ? AND thread = ? AND thread <> ''
		AND kind`+among(post.KindMessage, post.KindReply)+` AND state = `+isSent+rest, e.ApplicationID, e.Thread, e.Room, e.ID, after).Scan(&eventID)
	return eventID, err
}

// changeAlert changes the message of an alert, and adds a reply that rings if the message itself doesn't.
func (tx *Tx) changeAlert(a *Accept, t *post.Entry, ring bool) error {
	edited, err := tx.change(a, t)
	if err != nil || !edited || !ring {
		return err
	}
	r := t.Follow(post.KindReply, a.Entry.QueuedAt)
	r.Place, r.Content = 0, a.Entry.Content
	return tx.sql.insertEntries(tx.ctx, &r)
}

// change gives a message another content. One that waits is sent with that; else an edit is, in place of one that still waits.
func (tx *Tx) change(a *Accept, t *post.Entry) (edited bool, err error) {
	e := &a.Entry
	e.Kind, e.Target, e.Thread, a.Altered = post.KindEdit, t.ID, t.Thread, true
	t.Resolves = e.Resolves
	all, err := tx.followUps(t.ID)
	if err != nil {
		return false, err
	}
	edited = slices.ContainsFunc(all, func(f post.Entry) bool { return f.Kind == post.KindEdit && f.State.Pending() })
	if t.Replaceable() && !edited { // an edit would be sent after it
		t.Revise(e.Content, e.QueuedAt)
		return false, tx.saveContent(t)
	}
	attachments := t.Attachments // an edit sends new ones
	t.Content = e.Content
	t.Attachments = attachments
	if !t.State.Editable() {
		t.Attachments = post.JoinAttachments(attachments, e.Attachments)
	}
	if err := tx.saveContent(t); err != nil {
		return false, err
	}
	if !t.State.Editable() {
		return false, nil // there is no event to edit: it is sent so if it is delivered again
	}
	for _, f := range slices.Backward(all) {
		if f.Kind != post.KindEdit {
			continue
		}
		if !f.Replaceable() {
			break
		}
		f.Resolves = e.Resolves
		f.Revise(e.Content, e.QueuedAt)
		return true, tx.saveContent(&f)
	}
	return true, tx.sql.insertEntries(tx.ctx, e)
}

// reply adds a reply in the thread of a message.
func (tx *Tx) reply(e, t *post.Entry, ring bool) error {
	e.Kind, e.Target, e.Thread = post.KindReply, t.ID, t.Thread
	if !ring {
		e.Priority, e.GotifyScale = min(e.Priority, 0), 0
	}
	return tx.sql.insertEntries(tx.ctx, e)
}

// saveContent stores the content of an entry that was changed.
func (tx *Tx) saveContent(e *post.Entry) error {
	return tx.exec(contentText, append(editColumns.of(e), e.ID)...)
}
