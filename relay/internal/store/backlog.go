package store

import "context"

// Backlog counts the entries that wait for one room.
type Backlog struct {
	Room    int64
	Waiting int64
	Oldest  int64 // when the first of them that isn't delayed was queued; 0 without any
}

// Backlogs returns the backlog of each room with pending entries.
func (s *Store) Backlogs(ctx context.Context) (map[int64]Backlog, error) {
	var all []Backlog
	err := s.rows.WithContext(ctx).Raw(`SELECT b.room, b.waiting,
		coalesce((SELECT o.queued_at FROM outbox o WHERE o.room = b.room AND o.final_at = 0` + isDue + ` ORDER BY ` + place + `, o.id LIMIT 1), 0) AS oldest
		FROM (SELECT room, count(*) AS waiting FROM outbox ` + s.d.use("outbox_pending") + ` WHERE final_at = 0 GROUP BY room) AS b`).Scan(&all).Error
	byRoom := make(map[int64]Backlog, len(all))
	for _, b := range all {
		byRoom[b.Room] = b
	}
	return byRoom, err
}

// Waiting returns the number of pending entries: a count of the last second, plus the entries that this relay has accepted since.
func (s *Store) Waiting(ctx context.Context) (int64, error) {
	return s.feed.depth.get(func() (n int64, err error) {
		return n, s.read.QueryRowContext(ctx, `SELECT count(*) FROM outbox `+s.d.use("outbox_pending")+` WHERE final_at = 0`).Scan(&n)
	})
}

// Oldest returns the time at which the oldest pending entry was queued, of those that come next in their rooms; 0 without any.
// It reads one entry per room, however many wait.
func (s *Store) Oldest(ctx context.Context) (at int64, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT coalesce(min(x.oldest), 0) FROM (SELECT
		(SELECT o.queued_at FROM outbox o `+s.d.use("outbox_pending")+` WHERE o.room = r.id AND o.final_at = 0`+isDue+` ORDER BY `+place+`, o.id LIMIT 1) AS oldest
		FROM rooms r) AS x`).Scan(&at)
	return at, err
}
