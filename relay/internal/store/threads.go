package store

import (
	"context"

	"slipway/relay/internal/post"
)

// ThreadRoot returns the event that begins a thread in a room; "" if there is none. It is taken from the newest message of the thread
// with an id below before that was sent after a time, or from the message before itself if that is a reply.
func (s *Store) ThreadRoot(ctx context.Context, application int64, thread string, room, before, after int64) (eventID string, err error) {
	err = s.queryRow(ctx, `SELECT coalesce((SELECT CASE WHEN root <> '' THEN root ELSE event_id END FROM outbox WHERE application_id = ? AND thread = ? AND thread <> ''
		AND kind`+isMessage+` AND room = ? AND (id < ? OR id = ? AND root <> '') AND state = `+isSent+` AND final_at > ? ORDER BY id DESC LIMIT 1), '')`,
		application, thread, room, before, before, after).Scan(&eventID)
	return eventID, err
}

// GroupThread returns the thread in the room of e whose name begins with prefix and that has an alert that is open, or was closed since;
// "" if there is none.
func (tx *Tx) GroupThread(e *post.Entry, prefix string, since int64) (thread string, err error) {
	return thread, tx.db.Raw(`SELECT o.thread FROM alerts a JOIN outbox o ON o.id = a.message_id WHERE a.application_id = ? AND o.room = ? AND o.thread LIKE ?
		AND (a.closed_at = 0 OR a.closed_at >= ?) ORDER BY a.message_id DESC LIMIT 1`, e.ApplicationID, e.Room, prefix+"%", since).Scan(&thread).Error
}

// History returns what followed a message in its room, edits and replies, newest first: at most limit, and no other once their text takes as many
// bytes. Their IDs are below before, unless it is 0. more reports that others follow.
func (s *Store) History(ctx context.Context, message, before int64, limit, bytes int) (all []post.Entry, more bool, err error) {
	q := s.rows.WithContext(ctx).Table("outbox").Where("target > 0 AND target = ? AND kind IN ?", message, []post.Kind{post.KindEdit, post.KindReply})
	if before != 0 {
		q = q.Where("id < ?", before)
	}
	rows, err := q.Order("id DESC").Limit(limit + 1).Rows()
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = rows.Close() }()
	for size := 0; rows.Next(); {
		if len(all) == limit || size >= bytes {
			return all, true, nil
		}
		var e post.Entry
		if err := q.ScanRows(rows, &e); err != nil {
			return nil, false, err
		}
		size += e.Size()
		all = append(all, e)
	}
	return all, false, rows.Err()
}
