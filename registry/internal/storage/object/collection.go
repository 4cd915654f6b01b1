package object

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/storage"
)

// unfinishedAge is older than any request in progress.
const unfinishedAge = 7 * 24 * time.Hour

// Collect implements storage.Store. While no process has a lease it waits four seconds: then the renewals of one that
// takes it later are dated after the start. Otherwise it waits until the attempts of that process are over.
func (s *Store) Collect(ctx context.Context) (storage.Collection, error) {
	unlock, locked, err := s.lock(ctx, storage.LockCollector)
	if err != nil {
		return nil, err
	}
	start, dated, err := s.dates(ctx, lockPrefix+storage.LockCollector)
	noted := time.Now()
	var ahead time.Duration
	if locked && start.After(dated) && !dated.IsZero() { // else the lock in the bucket is of a collection that died
		start, ahead = dated, start.Sub(dated)
	}
	if err == nil {
		s.clean(ctx)
		err = sleep(ctx, time.Until(noted.Add(2*storage.ClockError)))
		var leased bool
		if err == nil {
			leased, err = s.leased(ctx, ahead)
		}
		if err == nil && leased {
			err = sleep(ctx, time.Until(noted.Add(s.fresh+storage.AttemptLimit+s.limits.MaxLate+2*storage.ClockError)))
		}
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return &collection{s: s, start: start.UTC(), begun: noted, ahead: ahead, unlock: unlock}, nil
}

// clean removes what writers and collections that died have left.
func (s *Store) clean(ctx context.Context) {
	err := s.lists.clean(ctx)
	if err == nil {
		err = s.b.AbortOld(ctx, s.root, s.b.Now().Add(-unfinishedAge))
	}
	if err != nil && ctx.Err() == nil {
		s.o.Log.Warn("cannot remove what unfinished requests have left in the bucket", zap.Error(err))
	}
}

type collection struct {
	s      *Store
	start  time.Time     // by the dates of objects
	begun  time.Time     // by this process
	ahead  time.Duration // of the store's answers
	unlock func()
}

func (c *collection) Start() time.Time { return c.start }

// Offline implements storage.Collection. A process without a lease may serve, and take one at any moment.
func (c *collection) Offline() bool { return false }

func (c *collection) Close() { c.unlock() }

// Delete implements storage.Collection.
func (c *collection) Delete(ctx context.Context, infos []storage.Info) (kept []storage.Info, err error) {
	if err := c.checkClock(ctx); err != nil {
		return nil, err
	}
	if !c.s.announces() {
		return c.deleteVersions(ctx, infos)
	}
	for len(infos) > 0 {
		n := min(len(infos), maxListed)
		changed, left, err := c.deleteListed(ctx, infos[:n])
		kept = append(kept, changed...)
		if err != nil {
			return kept, err
		}
		infos = slices.Concat(left, infos[n:])
	}
	return kept, nil
}

// clockKey is the key of an object whose date tells the store's clock.
const clockKey = private + "clock"

// checkClock returns an error if the dates of objects have gone back since the start. A bucket without space has no date to show.
func (c *collection) checkClock(ctx context.Context) error {
	elapsed := time.Since(c.begun)
	_, err := c.s.Put(ctx, clockKey, holder(), &WriteOptions{})
	if errors.Is(err, storage.ErrNoSpace) {
		return nil
	}
	var dated time.Time
	if err == nil {
		_, dated, err = c.s.dates(ctx, clockKey)
	}
	if err != nil || dated.IsZero() {
		return err
	}
	_ = c.s.Delete(ctx, clockKey, &WriteOptions{})
	return storage.CheckClock(c.start, dated, elapsed)
}

// deleteVersions deletes each object under the condition that it has that version.
func (c *collection) deleteVersions(ctx context.Context, infos []storage.Info) (kept []storage.Info, err error) {
	var mu sync.Mutex
	err = storage.Each(len(infos), storage.AtOnce, func(i int) error {
		info := infos[i]
		err := c.s.Delete(ctx, info.Key[1:], &WriteOptions{If: storage.IfVersion(info.Version)})
		if errors.Is(err, storage.ErrConflict) {
			var now storage.Info
			if now, err = c.s.Stat(ctx, info.Key); err == nil {
				mu.Lock()
				defer mu.Unlock()
				kept = append(kept, now)
			}
		}
		return at(info.Key, unlessAbsent(err))
	})
	return kept, err
}

// deleteListed deletes objects after it has announced them and waited for the attempts that have not seen that, if a
// process has a lease.
// left are those that it didn't come to before the list ended.
//
// If the bucket has no space for the list, it continues without one, a few objects at a time until there is room.
// An attempt that renews an object between the last look and the deletion would lose it, but on a full bucket
// renewals fail as well.
func (c *collection) deleteListed(ctx context.Context, infos []storage.Info) (kept, left []storage.Info, err error) {
	end := time.Now().Add(listLife - storage.ClockError)
	step := max(c.s.limits.MaxDelete, 4*storage.AtOnce) // deletions that are sent in parallel
	withdraw, err := c.s.lists.publish(ctx, infos)
	if errors.Is(err, storage.ErrNoSpace) {
		c.s.o.Log.Warn("the bucket has no space to announce deletions, so some are made without; stop the registries if you can", zap.Error(err))
		infos, left = infos[:min(len(infos), step)], infos[min(len(infos), step):]
		withdraw, err = func() {}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer withdraw()
	leased, err := c.s.leased(ctx, c.ahead)
	if err == nil && leased {
		err = sleep(ctx, announced)
	}
	if err != nil {
		return nil, nil, err
	}
	for some := range slices.Chunk(infos, step) {
		if time.Now().After(end) {
			left = append(left, some...)
			continue
		}
		unchanged, changed, err := c.divide(ctx, some)
		kept = append(kept, changed...)
		if err == nil && len(unchanged) > 0 {
			err = c.s.deleteMany(ctx, unchanged, &WriteOptions{Before: end, Settle: true})
		}
		if errors.Is(err, storage.ErrExpired) {
			left = append(left, some...)
			continue
		}
		if err != nil {
			return kept, nil, err
		}
	}
	return kept, left, nil
}

// divide returns what has to be deleted for those objects that are as they were, and those that are not.
func (c *collection) divide(ctx context.Context, infos []storage.Info) (unchanged []string, changed []storage.Info, err error) {
	var mu sync.Mutex
	err = storage.Each(len(infos), storage.AtOnce, func(i int) error {
		info := infos[i]
		now, err := c.s.Stat(ctx, info.Key)
		if err != nil {
			return unlessAbsent(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if now.Version != info.Version || !now.Modified.Equal(info.Modified) {
			changed = append(changed, now)
			return nil
		}
		unchanged = append(unchanged, info.Key[1:])
		if c.s.stamped(now.Size, now.Version) {
			unchanged = append(unchanged, stamp(info.Key[1:]))
		}
		return nil
	})
	return unchanged, changed, err
}
