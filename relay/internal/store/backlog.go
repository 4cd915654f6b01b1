package store

import (
	"context"
	"sync"
	"time"
)

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

// depth is how much waits, counted at most once a second. What this relay accepts in between is added, so that limits hold.
type depth struct {
	mu      sync.Mutex
	n       int64
	counted time.Time
}

func (d *depth) add(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n += n
}

// get returns the number.
func (d *depth) get(count func() (int64, error)) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.counted) < time.Second {
		return d.n, nil
	}
	n, err := count()
	if err != nil {
		return 0, err
	}
	d.n, d.counted = n, time.Now()
	return n, nil
}

// shares is a depth by application.
type shares struct {
	mu      sync.Mutex
	n       map[int64]int64
	counted time.Time
}

func (s *shares) add(application, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n != nil {
		s.n[application] += n
	}
}

// get returns the number of an application.
func (s *shares) get(application int64, count func() (map[int64]int64, error)) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == nil || time.Since(s.counted) >= time.Second {
		n, err := count()
		if err != nil {
			return 0, err
		}
		s.n, s.counted = n, time.Now()
	}
	return s.n[application], nil
}

// WaitingOf is Waiting for one application.
func (s *Store) WaitingOf(ctx context.Context, application int64) (int64, error) {
	return s.feed.depthBy.get(application, func() (map[int64]int64, error) {
		return s.byApplication(ctx, `SELECT application_id, count(*) FROM outbox `+s.d.use("outbox_pending")+` WHERE final_at = 0 GROUP BY application_id`)
	})
}

// byApplication counts what a query says of each application.
func (s *Store) byApplication(ctx context.Context, text string) (map[int64]int64, error) {
	rows, err := s.query(ctx, text)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	all := map[int64]int64{}
	for rows.Next() {
		var id, n int64
		if err := rows.Scan(&id, &n); err != nil {
			return nil, err
		}
		all[id] = n
	}
	return all, rows.Err()
}
