package store

import (
	"context"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// Backlog counts the entries that wait for one room.
type Backlog struct {
	Room    int64
	Waiting int64
	Oldest  int64 // when the first of them that isn't delayed was queued; 0 without any
}

// Backlogs returns the backlog of each room where entries wait.
func (s *Store) Backlogs(ctx context.Context) (map[int64]Backlog, error) {
	var all []Backlog
	err := s.rows.WithContext(ctx).Raw(`SELECT b.room, b.waiting,
		coalesce((SELECT o.queued_at FROM outbox o WHERE o.room = b.room AND ` + sendable + ` ORDER BY ` + place + `, o.id LIMIT 1), 0) AS oldest
		FROM (SELECT room, count(*) AS waiting FROM outbox ` + s.d.use("outbox_pending") + ` WHERE ` + counted + ` GROUP BY room) AS b`).Scan(&all).Error
	byRoom := make(map[int64]Backlog, len(all))
	for _, b := range all {
		byRoom[b.Room] = b
	}
	return byRoom, err
}

// Waiting returns the number of entries that wait: a count of the last second, plus the entries that this relay has accepted since.
func (s *Store) Waiting(ctx context.Context) (int64, error) {
	return s.total(ctx, &s.feed.depth, `SELECT count(*) FROM outbox `+s.d.use("outbox_pending")+` WHERE `+counted)
}

// Oldest returns the time at which the oldest pending entry was queued, of those that come next in their rooms; 0 without any.
// It reads one entry per room, however many wait.
func (s *Store) Oldest(ctx context.Context) (at int64, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT coalesce(min(x.oldest), 0) FROM (SELECT
		(SELECT o.queued_at FROM outbox o `+s.d.use("outbox_pending")+` WHERE o.room = r.id AND `+sendable+` ORDER BY `+place+`, o.id LIMIT 1) AS oldest
		FROM rooms r) AS x`).Scan(&at)
	return at, err
}

// depth is how much there is, counted at most once a second. What this relay adds in between counts, so that limits hold.
type depth struct {
	mu      sync.Mutex      // not held while the database counts, for a commit adds
	n       map[int64]int64 // by application, or all at 0; nil before the first count
	counted time.Time
	counts  singleflight.Group // many that ask at once share a count, or its failure
}

// add adds to the number of a key.
func (d *depth) add(key, n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.n != nil {
		d.n[key] += n
	}
}

// get returns the number of a key. What is added while count runs may be missing for a second.
func (d *depth) get(key int64, count func() (map[int64]int64, error)) (int64, error) {
	if n, ok := d.known(key, time.Second); ok {
		return n, nil
	}
	_, err, _ := d.counts.Do("", func() (any, error) {
		n, err := count()
		if err == nil {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.n, d.counted = n, time.Now()
		}
		return nil, err
	})
	if err != nil {
		return 0, err
	}
	n, _ := d.known(key, math.MaxInt64)
	return n, nil
}

// known returns the number of a key, if it was counted within that time.
func (d *depth) known(key int64, within time.Duration) (int64, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n[key], d.n != nil && time.Since(d.counted) < within
}

// total returns a depth of all applications together, which a query counts.
func (s *Store) total(ctx context.Context, d *depth, text string) (int64, error) {
	return d.get(0, func() (map[int64]int64, error) {
		var n int64
		err := s.read.QueryRowContext(ctx, text).Scan(&n)
		return map[int64]int64{0: n}, err
	})
}

// WaitingOf is Waiting for one application.
func (s *Store) WaitingOf(ctx context.Context, application int64) (int64, error) {
	return s.feed.depthBy.get(application, func() (map[int64]int64, error) {
		return s.byApplication(ctx, `SELECT application_id, count(*) FROM outbox `+s.d.use("outbox_pending")+` WHERE `+counted+` GROUP BY application_id`)
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
