package store

import (
	"context"
	"slices"
	"time"
)

const (
	horizonAgain  = 2 * time.Millisecond
	horizonWithin = 2 * transactWithin // no commit takes longer
)

// Horizon returns an id up to which the outbox is complete: no entry with a lower or equal id will appear later, and every
// entry that was committed before the call is included. Several relays give out ids before they commit, so Horizon blocks
// until those that were writing have ended.
func (s *Store) Horizon(ctx context.Context) (id int64, err error) {
	if err := s.queryRow(ctx, s.d.lastID, "outbox").Scan(&id); err != nil || s.d.writing == "" {
		return id, err
	}
	before, err := s.writing(ctx)
	for end := time.Now().Add(horizonWithin); err == nil && len(before) > 0 && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(horizonAgain):
		}
		var now []string
		now, err = s.writing(ctx)
		before = slices.DeleteFunc(before, func(tx string) bool { return !slices.Contains(now, tx) })
	}
	return id, err
}

// writing returns the transactions that may have given ids to entries and have not ended.
func (s *Store) writing(ctx context.Context) (all []string, err error) {
	return all, s.rows.WithContext(ctx).Raw(s.d.writing).Scan(&all).Error
}

// Activity receives after a commit that readers may want to know of, here or at another relay. It has one receiver.
func (s *Store) Activity() <-chan struct{} { return s.feed.activity }

// Nudge makes Activity receive.
func (s *Store) Nudge() { wake(s.feed.activity) }
