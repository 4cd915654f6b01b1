package store

import (
	"context"
	"time"
)

// Expiry says what is too old on its way to a room, and what is noted of it.
type Expiry struct {
	Room, Cutoff, Now int64  // rooms.id; queued before Cutoff, in milliseconds
	Reason            string // of a message that is given up
	NoFile            string // of one whose event is in the room, without the file that should follow
	NotRemoved        string // of one that was to be removed from the room and is not
}

// Expired says what became of it.
type Expired struct {
	Entries int64           // that are at rest now
	Dead    map[int64]int64 // of them messages that were given up, by application
	Oldest  int64           // when the oldest of the others was queued; 0 without any
}

const isExpired = `room = ? AND state < 10 AND queued_at < ?`

// Expire gives up what is too old. It counts what is given up.
func (s *Store) Expire(ctx context.Context, x Expiry) (done Expired, err error) {
	err = s.Update(ctx, func(tx *Tx) (err error) {
		if done.Dead, err = tx.countDead(ctx, x); err != nil {
			return err
		}
		if done.Entries, err = tx.expire(x); err != nil {
			return err
		}
		return tx.Raw(`SELECT coalesce(min(queued_at), 0) FROM outbox INDEXED BY outbox_pending WHERE room = ? AND state < 10`, x.Room).Scan(&done.Oldest).Error
	})
	return done, err
}

func (tx *Tx) expire(x Expiry) (entries int64, err error) {
	for _, change := range []struct {
		text string
		args []any
	}{
		{`UPDATE outbox SET error = ? WHERE id IN (SELECT message_id FROM outbox WHERE op > 0 AND ` + isExpired + `)`, []any{x.NotRemoved}},
		{`UPDATE outbox SET state = 10, error = ?, rested_at = ?, next_at = 0, wire = NULL WHERE step = 1 AND ` + isExpired, []any{x.NoFile, x.Now}},
		{`UPDATE outbox SET state = 12, error = ?, rested_at = ?, next_at = 0 WHERE ` + isExpired, []any{x.Reason, x.Now}},
	} {
		r := tx.Exec(change.text, append(change.args, x.Room, x.Cutoff)...)
		if r.Error != nil {
			return 0, r.Error
		}
		if len(change.args) > 1 {
			entries += r.RowsAffected
		}
	}
	return entries, nil
}

// countDead adds the messages that Expire is about to give up to the counts, and
// returns them by application.
func (tx *Tx) countDead(ctx context.Context, x Expiry) (map[int64]int64, error) {
	var counts []struct{ Application, N int64 }
	err := tx.Raw(`SELECT m.application_id AS application, count(*) AS n FROM outbox o JOIN messages m ON m.id = o.message_id
		WHERE o.op = 0 AND o.step <> 1 AND `+isExpired+` GROUP BY m.application_id`, x.Room, x.Cutoff).Scan(&counts).Error
	if err != nil {
		return nil, err
	}
	dead := map[int64]int64{}
	for _, c := range counts {
		dead[c.Application] = c.N
		if _, err := tx.w.sql.stat.ExecContext(ctx, x.Now/time.Hour.Milliseconds(), c.Application, 0, 0, c.N); err != nil {
			return nil, err
		}
		if _, err := tx.w.sql.total.ExecContext(ctx, 0, 0, c.N, 0, c.Application); err != nil {
			return nil, err
		}
	}
	return dead, nil
}
