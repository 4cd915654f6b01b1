package store

import (
	"context"

	"slipway/relay/internal/post"
)

// window is how many messages of a room may at most be sent without their outcome being committed.
const window = 64

// place orders a room's entries.
const place = `(CASE WHEN o.place > 0 THEN o.place ELSE o.id END)`

// besides is what an entry takes of its target, its application and the owner of that.
var besides = ` coalesce(t.event_id, ''), coalesce(t.first_attempt_at, 0), coalesce(t.room, 0), coalesce(u.matrix_id, ''),
	coalesce(CASE WHEN a.mention NOT IN ('auto', 'room') THEN a.mention WHEN ` + mayNotify + ` THEN a.mention ELSE 'owner' END, ''),
	a.id IS NULL OR a.deleted_at > 0, coalesce(a.room_id = o.room AND ` + hasLost("a") + `, FALSE),
	coalesce(CASE a.show_sender WHEN 'always' THEN a.name WHEN 'auto' THEN
		(SELECT a.name FROM ` + twins + ` JOIN applications b ON b.room_id = r.id WHERE own.id = o.room AND b.id <> a.id AND b.deleted_at = 0 LIMIT 1) END, '')`

// withBesides joins what besides selects.
const withBesides = ` LEFT JOIN applications a ON a.id = o.application_id LEFT JOIN users u ON u.id = a.owner_id LEFT JOIN outbox t ON t.id = o.target`

// Pending returns the first entries of a room that are on their way, in order: at most limit, and no more once they take
// up maxBytes. more says that it stopped early. All recorded outcomes count: those that can't be passed over are committed first.
func (s *Store) Pending(ctx context.Context, room int64, limit, maxBytes int) (entries []*post.Entry, more bool, err error) {
	ended, settled := s.w.recorded(room)
	if !settled || len(ended) > 0 && len(ended)+limit > window {
		if err := s.Settle(ctx); err != nil {
			return nil, false, err
		}
		clear(ended)
	}
	ctx, began := s.read.bound(ctx)
	rows, err := s.pending.QueryContext(ctx, room, limit+1+len(ended))
	began()
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = rows.Close() }()
	size := 0
	for rows.Next() {
		e, err := scanEntry(rows)
		if err != nil {
			return nil, false, err
		}
		if ended[e.ID] {
			continue
		}
		if len(entries) == limit || size >= maxBytes {
			return entries, true, nil
		}
		size += e.Size()
		entries = append(entries, e)
	}
	return entries, false, rows.Err()
}

func scanEntry(r row) (*post.Entry, error) {
	e := &post.Entry{}
	return e, r.Scan(append(allColumns.of(e), &e.TargetEvent, &e.TargetAt, &e.TargetRoom, &e.Mention, &e.Choice, &e.Deleted, &e.Barred, &e.Sender)...)
}

// pendingText is the statement of [Store.Pending]. A plan that depends on a bound value makes SQLite compile the statement
// again in each call; a cast hides the value from the planner.
func pendingText(d *database) string {
	return d.bind(`SELECT ` + allColumns.list("o.") + `,` + besides + ` FROM outbox o ` + d.use("outbox_pending") + withBesides + `
		WHERE o.room = CAST(? AS BIGINT) AND ` + sendable + ` ORDER BY ` + place + `, o.id LIMIT CAST(? AS BIGINT)`)
}

// inFront is how many entries of a room may be sent before one that is in flight, because they were delayed or delivered again or remove an
// event, without [Store.MarkSuspects] overlooking it.
const inFront = 10_000

// MarkSuspects is called at a start after an unclean shutdown: the first entries of each room, as many as may
// have been sent without a trace, count as attempted by that device from the time of their acceptance on. So does each that was queued
// before all that precede it: they may have come in front of it during its attempt. It reads no more of a room than its first entries,
// however much waits there.
func (s *Store) MarkSuspects(ctx context.Context, device string) error {
	return s.Lead(ctx, func(tx *Tx) error {
		var rooms []int64
		if err := tx.db.Model(&Room{}).Order("id").Pluck("id", &rooms).Error; err != nil {
			return err
		}
		for _, room := range rooms {
			err := tx.exec(`UPDATE outbox SET device = ?, first_attempt_at = queued_at WHERE first_attempt_at = 0 AND id IN
				(SELECT id FROM (SELECT f.id, f.queued_at, row_number() OVER (ORDER BY f.turn, f.id) AS n,
						min(f.queued_at) OVER (ORDER BY f.turn, f.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS earliest
					FROM (SELECT o.id, o.queued_at, `+place+` AS turn FROM outbox o `+s.d.use("outbox_pending")+` WHERE o.room = ? AND `+sendable+`
						ORDER BY `+place+`, o.id LIMIT ?) AS f) AS s
				WHERE s.n <= ? OR s.queued_at < s.earliest)`, device, room, inFront, window)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

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
