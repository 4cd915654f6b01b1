package store

import (
	"context"
	"sync"
	"time"
)

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
