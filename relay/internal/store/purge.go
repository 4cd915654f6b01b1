package store

import (
	"context"
	"errors"
	"time"

	"slipway/relay/internal/post"
)

// PurgeOld reads up to limit messages with ids above after and removes those that were accepted before cutoff and are
// final. It returns the id to continue from, 0 at the end.
func (s *Store) PurgeOld(ctx context.Context, after, cutoff int64, limit int) (next int64, err error) {
	var found []post.Entry
	err = s.rows.WithContext(ctx).Table("outbox").Select("id", "accepted_at", "final_at").Where("kind"+isMessage+" AND id > ?", after).Order("id").Limit(limit).Find(&found).Error
	if err != nil {
		return 0, err
	}
	var old []int64
	now := time.Now().UnixMilli()
	for _, r := range found {
		if r.AcceptedAt >= cutoff && r.AcceptedAt <= now {
			break // ids and times of acceptance rise together, unless the clock was ahead
		}
		next = r.ID
		if r.FinalAt != 0 && r.AcceptedAt < cutoff {
			old = append(old, r.ID)
		}
	}
	if len(found) < limit || next != found[len(found)-1].ID {
		next = 0
	}
	if len(old) == 0 {
		return next, nil
	}
	return next, s.Update(ctx, func(tx *Tx) error {
		var still []int64 // messages being delivered again, edited or removed stay, as do those of open alerts
		err := tx.db.Clauses(forUpdate).Table("outbox").Where("id IN ? AND final_at > 0 AND NOT EXISTS (SELECT 1 FROM outbox f WHERE f.target > 0 AND f.target = outbox.id AND f.final_at = 0)", old).
			Where("NOT EXISTS (SELECT 1 FROM alerts a WHERE a.message_id = outbox.id AND a.closed_at = 0 AND a.changed_at >= ?)", cutoff).
			Pluck("id", &still).Error
		if err != nil || len(still) == 0 {
			return err
		}
		return tx.purge(still)
	})
}

// purge removes messages with what follows them.
func (tx *Tx) purge(ids []int64) error {
	return errors.Join(
		tx.exec(`DELETE FROM alerts WHERE message_id IN ?`, ids),
		tx.exec(`DELETE FROM attachments WHERE message_id > 0 AND message_id IN ?`, ids),
		tx.exec(`DELETE FROM digests WHERE message_id > 0 AND message_id IN ?`, ids),
		tx.exec(`DELETE FROM outbox WHERE target > 0 AND target IN ?`, ids),
		tx.exec(`DELETE FROM outbox WHERE id IN ?`, ids),
		tx.exec(`DELETE FROM hidden_messages WHERE message_id IN ?`, ids),
	)
}

// PurgeApplications removes some messages of applications that are marked as deleted, and an application itself with the
// last of its messages. more says that there are others.
func (s *Store) PurgeApplications(ctx context.Context, limit int) (more bool, err error) {
	var apps []int64
	err = s.rows.WithContext(ctx).Model(&Application{}).Where("deleted_at > 0").Order("id").Limit(1).Pluck("id", &apps).Error
	if err != nil || len(apps) == 0 {
		return false, err
	}
	return true, s.Update(ctx, func(tx *Tx) error {
		var ids []int64
		if err := tx.db.Table("outbox").Where("kind"+isRead+" AND kind"+isMessage+" AND application_id = ?", apps[0]).Limit(limit).Pluck("id", &ids).Error; err != nil {
			return err
		}
		tx.changed(0, Altered)
		if len(ids) > 0 {
			if err := tx.purge(ids); err != nil {
				return err
			}
		}
		if len(ids) == limit {
			return nil
		}
		return errors.Join(
			tx.exec(`DELETE FROM idempotency WHERE application_id = ?`, apps[0]),
			tx.exec(`DELETE FROM hidden_through WHERE application_id = ?`, apps[0]),
			tx.exec(`DELETE FROM applications WHERE id = ? AND deleted_at > 0`, apps[0]),
		)
	})
}

// Tidy removes idempotency keys from before old, sessions that have ended, counts of hours before hour, attachments that wait for
// their message for too long, and those from before old of messages that are final.
func (s *Store) Tidy(ctx context.Context, now, old, hour int64) error {
	if s.Shared() {
		if _, err := s.pools[0].ExecContext(ctx, `DELETE FROM buckets WHERE at < now() - interval '1 day'`); err != nil {
			return err
		}
	}
	return s.Update(ctx, func(tx *Tx) error {
		return errors.Join(
			tx.exec(`DELETE FROM idempotency WHERE created_at < ?`, old),
			tx.exec(`DELETE FROM sessions WHERE expires_at < ?`, now),
			tx.exec(`DELETE FROM stats WHERE hour < ?`, hour),
			tx.exec(`DELETE FROM attachments WHERE message_id = 0 AND created_at < ?`, now-unusedKept.Milliseconds()),
			tx.exec(`DELETE FROM attachments WHERE `+abandoned, old),
		)
	})
}
