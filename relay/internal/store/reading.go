package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"slipway/relay/internal/post"
)

// Reading selects what reached a reader: messages, their edits and the replies about them, of which only the newest counts. What was
// withdrawn is left out.
type Reading struct {
	Owner       int64 // of the application; 0: any
	Application int64 // 0: any
	HiddenFrom  int64 // leaves out what this user has deleted; 0: nothing
	ID          int64 // only this one, also if it isn't the newest; 0: any
	After       int64 // ids above
	Through     int64 // ids up to this one; 0: no bound
	Oldest      bool  // oldest first, not newest
	Limit       int
	Bytes       int // of text, after which no more are read; 0: no bound
}

var (
	notHidden = `NOT EXISTS (SELECT 1 FROM hidden_messages h WHERE h.message_id = o.id AND h.user_id = ?)
		AND o.id > coalesce((SELECT h.message_id FROM hidden_through h WHERE h.user_id = ? AND h.application_id = o.application_id), 0)`
	// A message with what followed it: each follow-up names it as its target.
	whole    = `(CASE WHEN o.kind` + isMessage + ` THEN o.id ELSE o.target END)`
	readable = `o.kind` + isRead + ` AND o.state NOT IN ` + unreadable + `
		AND NOT EXISTS (SELECT 1 FROM outbox t WHERE t.id = o.target AND o.kind` + isNoMessage + ` AND t.state IN ` + unreadable + `)
		AND NOT EXISTS (SELECT 1 FROM outbox f WHERE f.target = ` + whole + ` AND f.target > 0 AND f.kind` + isRedaction + `)`
	newest = `NOT EXISTS (SELECT 1 FROM outbox f WHERE f.target = ` + whole + ` AND f.target > 0 AND f.id > o.id AND f.kind` + isNews + ` AND f.state NOT IN ` + unreadable + `)`
)

// Read returns what r selects. more says that it stopped because of Bytes or Limit.
func (s *Store) Read(ctx context.Context, r Reading) (all []post.View, more bool, err error) {
	if r.HiddenFrom != 0 {
		through, err := s.hiddenThrough(ctx, r.HiddenFrom)
		if err != nil {
			return nil, false, err
		}
		r.After = max(r.After, through)
	}
	where, args := r.where()
	return s.viewPage(ctx, r.Limit, r.Bytes, "", where, args)
}

func (r Reading) where() (string, []any) {
	var c conditions
	c.add(`o.id > ?`, r.After)
	if r.Through > 0 {
		c.add(`o.id <= ?`, r.Through)
	}
	switch { // The + keeps SQLite from sorting all messages of all these applications.
	case r.Application != 0 && r.Owner != 0:
		c.add(`o.application_id = ? AND a.owner_id = ? AND a.deleted_at = 0`, r.Application, r.Owner)
	case r.Application != 0:
		c.add(`o.application_id = ? AND a.deleted_at = 0`, r.Application)
	case r.Owner != 0:
		c.add(`+o.application_id IN (SELECT id FROM applications WHERE owner_id = ? AND deleted_at = 0)`, r.Owner)
	default:
		c.add(`+o.application_id IN (SELECT id FROM applications WHERE deleted_at = 0)`)
	}
	c.add(readable) // after what rules out most messages
	if r.ID > 0 {
		c.add(`o.id = ?`, r.ID)
	} else {
		c.add(newest)
	}
	if r.HiddenFrom != 0 {
		c.add(notHidden, r.HiddenFrom, r.HiddenFrom)
	}
	where, args := c.where()
	if r.Oldest {
		return where + ` ORDER BY o.id LIMIT ?`, args
	}
	return where + ` ORDER BY o.id DESC LIMIT ?`, args
}

// hiddenThrough returns up to which id a user has deleted everything.
func (s *Store) hiddenThrough(ctx context.Context, user int64) (id int64, err error) {
	return id, s.rows.WithContext(ctx).Raw(`SELECT coalesce(max(message_id), 0) FROM hidden_through WHERE user_id = ? AND application_id = 0`, user).Scan(&id).Error
}

// Hide leaves a message out of what a user reads.
func (tx *Tx) Hide(user, id int64) error {
	return tx.exec(`INSERT INTO hidden_messages (message_id, user_id) VALUES (?, ?) ON CONFLICT (message_id, user_id) DO NOTHING`, id, user)
}

// HideThrough leaves all messages of an application up to an id out of what a user reads; application 0 stands for all.
func (tx *Tx) HideThrough(user, application, id int64) error {
	err := tx.exec(`INSERT INTO hidden_through AS h (user_id, application_id, message_id) VALUES (?, ?, ?)
		ON CONFLICT (user_id, application_id) DO UPDATE SET message_id = excluded.message_id WHERE h.message_id < excluded.message_id`, user, application, id)
	if application != 0 {
		return err
	}
	return errors.Join(err,
		tx.exec(`DELETE FROM hidden_messages WHERE user_id = ? AND message_id <= ?`, user, id),
		tx.exec(`DELETE FROM hidden_through WHERE user_id = ? AND application_id <> 0 AND message_id <= ?`, user, id))
}

const (
	horizonAgain  = 2 * time.Millisecond
	horizonWithin = 2 * transactWithin // no commit takes longer
)

// Horizon returns an id up to which the outbox is complete: no entry with a lower or equal id will appear later, and every
// entry that was committed before the call is included. Several relays give out ids before they commit, so Horizon blocks
// until those that were writing have ended.
func (s *Store) Horizon(ctx context.Context) (id int64, err error) {
	if err := s.queryRow(ctx, s.d.lastID, "outbox").Scan(&id); err != nil || s.d.writing == "" {
		return id, err
	}
	before, err := s.writing(ctx)
	for end := time.Now().Add(horizonWithin); err == nil && len(before) > 0 && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(horizonAgain):
		}
		var now []string
		now, err = s.writing(ctx)
		before = slices.DeleteFunc(before, func(tx string) bool { return !slices.Contains(now, tx) })
	}
	return id, err
}

// writing returns the transactions that may have given ids to entries and have not ended.
func (s *Store) writing(ctx context.Context) (all []string, err error) {
	return all, s.rows.WithContext(ctx).Raw(s.d.writing).Scan(&all).Error
}
