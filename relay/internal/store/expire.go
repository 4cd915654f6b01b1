package store

import (
	"context"
	"errors"
	"time"

	"slipway/relay/internal/message"
)

// Expiry says what is too old on its way to a room, and what is noted of it.
type Expiry struct {
	Room, Cutoff, Now int64  // rooms.id; queued before Cutoff, in milliseconds
	Reason            string // of a message that is given up
	Incomplete        string // of one whose first event is in the room, but not all that should follow
	NotRemoved        string // of one that was to be removed from the room and is not
}

// OldRooms returns the rooms with entries that were queued before cutoff.
func (s *Store) OldRooms(ctx context.Context, cutoff int64) (rooms []int64, err error) {
	return rooms, s.rows.WithContext(ctx).Raw(`SELECT DISTINCT room FROM outbox `+s.d.by("outbox_pending")+` WHERE final_at = 0 AND queued_at < ?`, cutoff).Scan(&rooms).Error
}

const isExpired = `room = ? AND final_at = 0 AND queued_at < ?`

// Expire gives up what is too old. It counts what is given up, and returns the number of entries and of messages.
func (s *Store) Expire(ctx context.Context, x Expiry) (entries, dead int64, err error) {
	err = s.Lead(ctx, func(tx *Tx) (err error) {
		if dead, err = tx.countDead(x); err != nil {
			return err
		}
		tx.changes = append(tx.changes, Change{Room: x.Room, Kind: Altered})
		entries, err = tx.execCount(`UPDATE outbox SET state = 'dead', error = ?, final_at = ?, next_at = 0 WHERE kind = 0 AND `+isExpired, x.Reason, x.Now, x.Room, x.Cutoff)
		return errors.Join(err, tx.expireFollowUps(x, message.File, x.Incomplete, &entries), tx.expireFollowUps(x, message.Part, x.Incomplete, &entries), tx.expireFollowUps(x, message.Redact, x.NotRemoved, &entries))
	})
	return entries, dead, err
}

func (tx *Tx) expireFollowUps(x Expiry, kind message.Kind, reason string, entries *int64) error {
	if err := tx.exec(`UPDATE outbox SET error = ? WHERE id IN (SELECT after FROM outbox WHERE kind = ? AND `+isExpired+`)`, reason, int(kind), x.Room, x.Cutoff); err != nil {
		return err
	}
	n, err := tx.execCount(`UPDATE outbox SET state = 'dead', error = ?, final_at = ?, next_at = 0 WHERE kind = ? AND `+isExpired, reason, x.Now, int(kind), x.Room, x.Cutoff)
	*entries += n
	return err
}

// countDead adds the messages that Expire is about to give up to the counts.
func (tx *Tx) countDead(x Expiry) (dead int64, err error) {
	var all []struct{ ID, Application int64 }
	err = tx.db.Raw(`SELECT m.id, m.application_id AS application FROM outbox o JOIN messages m ON m.id = o.id
		WHERE o.kind = 0 AND `+isExpired, x.Room, x.Cutoff).Scan(&all).Error
	if err != nil {
		return 0, err
	}
	byApplication := map[int64]int64{}
	for _, m := range all {
		byApplication[m.Application]++
		tx.final = append(tx.final, m.ID)
	}
	for application, n := range byApplication {
		if err := tx.sql.count(tx.ctx, Stat{Hour: x.Now / time.Hour.Milliseconds(), ApplicationID: application}, count{dead: n}); err != nil {
			return 0, err
		}
	}
	return int64(len(all)), nil
}
