package store

import "context"

// isDue excludes delayed entries (of o): queued, with a time before which they aren't sent.
const isDue = ` AND (o.next_at = 0 OR o.state <> ` + isQueued + `)`

// dueBatch is how many delayed entries are due at once.
const dueBatch = 200

// NextDelayed returns when the next delayed entry is due; 0 if there is none.
func (s *Store) NextDelayed(ctx context.Context) (at int64, err error) {
	return at, s.read.QueryRowContext(ctx, `SELECT coalesce(min(next_at), 0) FROM outbox WHERE state = `+isQueued+` AND next_at > 0`).Scan(&at)
}

// DueDelayed returns the first delayed entries that are due.
func (tx *Tx) DueDelayed(now int64) (ids []int64, err error) {
	return ids, tx.db.Raw(`SELECT id FROM outbox WHERE state = `+isQueued+` AND next_at > 0 AND next_at <= ? ORDER BY next_at LIMIT ?`, now, dueBatch).Scan(&ids).Error
}
