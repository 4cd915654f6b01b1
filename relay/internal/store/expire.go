package store

import (
	"context"

	"slipway/relay/internal/post"
)

// OldRooms returns the rooms with entries that were queued before cutoff.
func (s *Store) OldRooms(ctx context.Context, cutoff int64) (rooms []int64, err error) {
	return rooms, s.rows.WithContext(ctx).Raw(`SELECT DISTINCT room FROM outbox `+s.d.use("outbox_pending")+` WHERE final_at = 0 AND queued_at < ?`, cutoff).Scan(&rooms).Error
}

// expireBatch is how many entries one transaction gives up, so that accepting never waits long.
const expireBatch = 500

// Expire gives up a room's entries that were queued before cutoff, for a reason. It returns the number of entries and of messages.
func (s *Store) Expire(ctx context.Context, room, cutoff, now int64, reason string) (entries, dead int64, err error) {
	for {
		n, d, err := s.expireSome(ctx, room, cutoff, now, reason)
		entries, dead = entries+n, dead+d
		if err != nil || n < expireBatch {
			return entries, dead, err
		}
	}
}

func (s *Store) expireSome(ctx context.Context, room, cutoff, now int64, reason string) (entries, dead int64, err error) {
	err = s.Lead(ctx, func(tx *Tx) error {
		entries, dead = 0, 0
		var all []post.Entry
		err := tx.db.Table("outbox").Where("room = ? AND final_at = 0 AND queued_at < ?", room, cutoff).Order("id").Limit(expireBatch).Find(&all).Error
		if err != nil {
			return err
		}
		for _, e := range all {
			now, err := tx.Step(e, post.Expired{Reason: reason}, now)
			if err != nil {
				return err
			}
			entries++
			if now.Kind == post.KindMessage && now.State == post.StateDead {
				dead++
			}
		}
		return nil
	})
	return entries, dead, err
}
