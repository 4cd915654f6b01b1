package object

import (
	"context"
	"fmt"
	"time"

	"slipway/registry/internal/storage"
)

// defaultFresh is the age up to which an attempt relies on an object without renewing it.
const defaultFresh = time.Minute

// listing reports whether collections announce what they delete, since the store can't delete under
// a version that a renewal changes.
func (s *Store) listing() bool { return !s.limits.Versioned || !s.limits.ConditionalDelete }

// Begin implements storage.Store. What collections have announced is read meanwhile. The store's
// clock is known from answers, which come late: an attempt that is dated too late only renews more.
func (s *Store) Begin() *storage.Attempt {
	if s.listing() {
		s.lists.prefetch()
	}
	return storage.NewAttempt(s.b.Now().Add(storage.ClockError), s.fresh, nil)
}

// errListed means that a collection is deleting what an attempt needs.
var errListed = fmt.Errorf("%w: %w: a garbage collection is deleting this object; try again in a minute", storage.ErrUnavailable, storage.ErrTemporary)

const listedPause = time.Second

// deadline returns when an attempt may change nothing more, after it has waited for the collections that
// are deleting what the stage puts or renews, or what the attempt relies on: a fresh object is listed, too, if it
// was renewed by a request that came late.
func (s *Store) deadline(ctx context.Context, a *storage.Attempt, stage storage.Stage) (time.Time, error) {
	if err := a.Err(); err != nil {
		return time.Time{}, err
	}
	now := time.Now()
	end := now.Add(storage.AttemptLimit)
	if a != nil {
		end = now.Add(a.Left())
	}
	var keys []string
	for _, c := range stage {
		if !c.Delete {
			keys = append(keys, c.Key)
		}
	}
	if !s.listing() || len(keys) == 0 {
		return end, nil
	}
	if a != nil {
		keys = append(keys, a.Relied()...)
	}
	for since := now.Add(-listsFor); ; since = time.Now() {
		known, err := s.lists.get(ctx, since)
		if err != nil {
			return end, err
		}
		if !known.listed(s.b.Now(), keys) {
			// A collection whose list came later looks again a full attempt after publishing it.
			if seen := known.began.Add(storage.AttemptLimit); seen.Before(end) {
				end = seen
			}
			return end, nil
		}
		if time.Now().Add(listedPause).After(end) {
			return end, errListed
		}
		if err := sleep(ctx, listedPause); err != nil {
			return end, err
		}
	}
}
