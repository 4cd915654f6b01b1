package store

import (
	"context"

	"slipway/relay/internal/post"
)

// isDue excludes delayed entries (of o): queued, with a time before which they aren't sent.
const isDue = ` AND (o.next_at = 0 OR o.state <> ` + isQueued + `)`

// dueBatch is how many delayed entries one transaction releases.
const dueBatch = 200

// NextDelayed returns when the next delayed entry is due; 0 if there is none.
func (s *Store) NextDelayed(ctx context.Context) (at int64, err error) {
	return at, s.read.QueryRowContext(ctx, `SELECT coalesce(min(next_at), 0) FROM outbox WHERE state = `+isQueued+` AND next_at > 0`).Scan(&at)
}

// ReleaseDelayed makes delayed entries that are due ordinary ones, and gives up those whose application may not send to their room any
// more. Only the delivering relay may call it.
func (s *Store) ReleaseDelayed(ctx context.Context, now int64) error {
	return s.Lead(ctx, func(tx *Tx) error {
		var due []int64
		err := tx.db.Raw(`SELECT id FROM outbox WHERE state = `+isQueued+` AND next_at > 0 AND next_at <= ? ORDER BY next_at LIMIT ?`, now, dueBatch).Scan(&due).Error
		if err != nil {
			return err
		}
		dead := counts{}
		for _, id := range due {
			if err := tx.release(id, now, dead); err != nil {
				return err
			}
		}
		return tx.sql.storeCounts(tx.ctx, dead)
	})
}

func (tx *Tx) release(id, now int64, dead counts) error {
	e, err := tx.loadEntry(id)
	if err != nil {
		return err
	}
	may, err := tx.maySend(e.ApplicationID, e.Room)
	if err != nil {
		return err
	}
	tx.changed(e.Room, Added)
	if may {
		_, err = tx.step(e, post.Due{}, now)
		return err
	}
	effects, err := tx.step(e, post.Barred{}, now)
	if counted(effects) {
		dead.at(e.ApplicationID, now).dead++
	}
	tx.final = append(tx.final, e.MessageID())
	return err
}
