package store

import (
	"context"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
)

// collect stores a message or adds it to the digest. It locks the room, so other relays wait.
func (tx *Tx) collect(a *Accept) error {
	e := &a.Entry
	f := post.Digest{}
	if err := tx.db.Clauses(forUpdate).Table("digests").Where("application_id = ? AND topic = ?", e.ApplicationID, a.Topic).Take(&f).Error; err != nil && !IsMissing(err) {
		return err
	}
	f.ApplicationID, f.Topic = e.ApplicationID, a.Topic
	t, shown, err := tx.collector(f.MessageID, e.Room)
	if err != nil {
		return err
	}
	if gone, err := tx.withdrawn(&t); err != nil {
		return err
	} else if gone {
		f = f.Withdrawn()
	}
	f, collected := post.Collect(f, a.Window, e.AcceptedAt, a.Line, e.Priority)
	if collected {
		title, body := f.Message()
		e.Content = post.Content{Title: title, Body: body, ContentType: format.Plain, Priority: f.Priority}
		if shown {
			if _, err := tx.change(a, &t); err != nil {
				return err
			}
			return tx.saveDigest(f)
		}
	}
	collects := collected || f.Topic != ""
	if collects {
		e.Source = post.SourceDigest
	}
	if err := tx.sql.insertEntries(tx.ctx, e); err != nil {
		return err
	}
	if collects {
		f.MessageID = e.ID
	}
	return tx.saveDigest(f)
}

// collector returns the message of the digest, and whether it is in the room or pending.
func (tx *Tx) collector(id, room int64) (t post.Entry, shown bool, err error) {
	if id == 0 {
		return t, false, nil
	}
	if t, err = tx.loadEntry(id); err != nil {
		if IsMissing(err) {
			err = nil
		}
		return t, false, err
	}
	shown, err = tx.shown(&t, room)
	return t, shown, err
}

func (tx *Tx) saveDigest(f post.Digest) error {
	return tx.upsert("digests", &f, "application_id", "topic")
}

// CollectsSeveral reports whether a message collects more than one other.
func (tx *Tx) CollectsSeveral(id int64) (bool, error) {
	e, err := tx.loadEntry(id)
	return e.Source == post.SourceDigest && post.DigestsSeveral(e.Title), err
}

// Muted returns messages of an application that mentioned nobody because of the hour and were not withdrawn, the latest first.
func (s *Store) Muted(ctx context.Context, application, from, to int64, limit int) (all []post.Entry, err error) {
	return all, s.rows.WithContext(ctx).Table("outbox").Where("application_id = ? AND kind"+isRead+" AND kind <> ? AND priority = 1 AND mentions = ?", application, post.KindEdit, format.Nobody).
		Where("state NOT IN "+withdrawn).Where("queued_at >= ? AND queued_at < ?", from, to).Order("id DESC").Limit(limit).Find(&all).Error
}
