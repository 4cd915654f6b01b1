package object

import (
	"context"
	"fmt"
	"time"

	"slipway/registry/internal/storage"
)

// defaultFresh is the age up to which an attempt relies on an object without renewing it.
const defaultFresh = time.Minute

// announces reports whether collections announce what they delete, since the store can't delete under
// a version that a renewal changes.
func (s *Store) announces() bool { return !s.limits.Versioned || !s.limits.ConditionalDelete }

// Begin implements storage.Store. What collections have announced is read meanwhile. The store's
// clock is known from answers, which come late: an attempt that is dated too late only renews more.
func (s *Store) Begin() (a *storage.Attempt) {
	begun := s.b.Now().Add(storage.ClockError)
	if s.announces() {
		s.lists.prefetch()
	}
	a = storage.NewAttempt(begun, s.fresh, nil, func(ctx context.Context, key string) error {
		_, err := s.deadline(ctx, a, key)
		return err
	})
	return a
}

// errListed means that a collection is deleting what an attempt needs.
var errListed = fmt.Errorf("%w: %w: a garbage collection is deleting this object; try again in two minutes", storage.ErrUnavailable, storage.ErrTemporary)

const listedPause = time.Second

// deadline returns when an attempt may change nothing more, after it has waited for the collections that
// are deleting one of the keys. Rely calls it before it looks at an object, since even a fresh one may be going: a
// late request may have renewed it after the collection looked.
//
// Until then this process has a lease. A collection that began before the bucket had it didn't wait for the attempt, so
// nothing that is older counts: neither dates of objects nor what was read of the lists.
//
// A collection whose list the attempt misses looks again after that time, and keeps what the attempt has put
// or renewed. For example, an attempt that begins at 12:00:00 may use lists read at 11:59:57 (listsFor), and is
// over at 12:00:15. A collection that publishes its list at 11:59:58 looks again at 12:00:18 (announced).
func (s *Store) deadline(ctx context.Context, a *storage.Attempt, keys ...string) (time.Time, error) {
	if err := a.Err(); err != nil {
		return time.Time{}, err
	}
	now := time.Now()
	end := now.Add(storage.AttemptLimit)
	if a != nil {
		end = now.Add(a.Left())
	}
	if len(keys) == 0 {
		return end, nil
	}
	held, err := s.lease.hold(ctx, time.Until(end))
	if err != nil {
		return end, err
	}
	a.RenewBefore(held.since)
	if !s.announces() {
		return end, nil
	}
	since := now.Add(-listsFor)
	if since.Before(held.seen) {
		since = held.seen
	}
	for ; ; since = time.Now() {
		known, err := s.lists.get(ctx, since)
		if err != nil {
			return end, err
		}
		if !known.listed(s.b.Now(), keys) {
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
