package object

import (
	"context"
	"errors"
	"fmt"
	"time"

	"slipway/registry/internal/storage"
)

// slowPut is the longest duration of a put before the upload begins another attempt for its link. A faster
// put that ends after its own attempt is ErrExpired (see late).
const slowPut = 5 * time.Second

// Apply implements storage.Store.
func (s *Store) Apply(ctx context.Context, a *storage.Attempt, stages ...storage.Stage) error {
	ctx = context.WithoutCancel(ctx)
	for _, stage := range stages {
		for i := range stage {
			c := &stage[i]
			if err := c.Check(); err != nil {
				return err
			}
			if u, ok := c.Upload.(*upload); c.Upload != nil && (!ok || u.s != s) {
				return fmt.Errorf("upload %T of another store", c.Upload)
			}
		}
	}
	defer s.removePlaced(ctx, stages)
	for _, stage := range stages {
		if len(stage) == 0 {
			continue
		}
		if err := s.applyStage(ctx, a, stage); err != nil {
			return err
		}
	}
	return nil
}

// applyStage makes the first change, and then the others in parallel; deletions alone go in one request.
func (s *Store) applyStage(ctx context.Context, a *storage.Attempt, stage storage.Stage) error {
	before, err := s.deadline(ctx, a, s.written(stage)...)
	if err != nil {
		return at(stage[0].Key, err)
	}
	if single, together := s.split(stage); len(single) == 0 {
		return at(stage[0].Key, s.deleteMany(ctx, together, &WriteOptions{Before: before}))
	}
	first, others := stage[0], stage[1:]
	begun := time.Now()
	end := before
	if first.Upload != nil && a == nil {
		end = time.Time{} // bytes rely on nothing
	}
	if err := s.apply(ctx, first, end); err != nil {
		return at(first.Key, err)
	}
	// Stores date composed objects as they like.
	if u, ok := first.Upload.(*upload); ok && a == nil && (time.Since(begun) > slowPut || len(u.parts) > 0) {
		if before, err = s.renewPlaced(ctx, first.Key, others); err != nil {
			return at(first.Key, err)
		}
	} else if s.late(before) {
		return at(first.Key, storage.ErrExpired)
	}
	single, together := s.split(others)
	if len(together) > 0 {
		if err := s.deleteMany(ctx, together, &WriteOptions{Before: before}); err != nil {
			return at("/"+together[0], err)
		}
	}
	if len(single) == 0 {
		return nil
	}
	err = storage.Each(len(single), storage.AtOnce, func(i int) error { return at(single[i].Key, s.apply(ctx, single[i], before)) })
	if err == nil && s.late(before) {
		err = storage.ErrExpired
	}
	return err
}

// written returns the keys that the changes put or renew, and a collection may delete.
func (s *Store) written(changes []storage.Change) (keys []string) {
	for _, c := range changes {
		if !c.Delete && (s.o.Collected == nil || s.o.Collected(c.Key)) {
			keys = append(keys, c.Key)
		}
	}
	return keys
}

// late reports whether a collection that announces what it deletes may have missed what was just changed.
func (s *Store) late(before time.Time) bool { return s.announces() && storage.Elapsed(before) > 0 }

// renewPlaced begins another attempt for changes that rely on bytes which took long to put.
func (s *Store) renewPlaced(ctx context.Context, key string, others storage.Stage) (before time.Time, err error) {
	a := s.Begin()
	_, err = storage.Rely(ctx, s, a, key)
	if errors.Is(err, storage.ErrNotExist) {
		err = errListed
	}
	if err == nil {
		err = a.Denied()
	}
	if err != nil {
		return before, err
	}
	return s.deadline(ctx, a, s.written(others)...)
}

// split separates the deletions that can share a request from all other changes.
func (s *Store) split(stage storage.Stage) (single storage.Stage, together []string) {
	for _, c := range stage {
		if c.Delete && c.If == (storage.Condition{}) && !s.mayUpload(c.Key) {
			together = append(together, c.Key[1:])
		} else {
			single = append(single, c)
		}
	}
	if len(together) == 1 {
		return stage, nil
	}
	return single, together
}

func (s *Store) apply(ctx context.Context, c storage.Change, before time.Time) error {
	key, how := c.Key[1:], &WriteOptions{If: c.If, Before: before}
	if c.Delete && how.If.Absent() {
		// There is nothing to send, and what a store makes of such a condition is its own affair.
		return s.compare(ctx, key, how.If)
	}
	if !s.limits.ConditionalPut || !s.limits.ConditionalDelete {
		// A condition on a deletion excludes the changes of this process only.
		defer s.locks.lock(c.Key)()
		if emulated := c.Delete && !s.limits.ConditionalDelete || !s.limits.ConditionalPut; emulated && !c.Renew {
			if err := s.compare(ctx, key, how.If); err != nil {
				return err
			}
			how.If = storage.Condition{}
		}
	}
	switch {
	case c.Delete:
		var err error
		if s.mayObject(c.Key) {
			err = s.Delete(ctx, key, how)
		}
		if err == nil && s.mayUpload(c.Key) {
			err = s.deleteUpload(ctx, c.Key, how.Before)
		}
		return err
	case c.Renew:
		return s.renew(ctx, key, how)
	case c.Upload != nil:
		return c.Upload.(*upload).place(ctx, key, how) //nolint:forcetypeassert // Apply has looked
	default:
		_, err := s.Put(ctx, key, c.Content, how)
		return err
	}
}

// compare checks a condition that the store ignores.
func (s *Store) compare(ctx context.Context, key string, c storage.Condition) error {
	if c == (storage.Condition{}) {
		return nil
	}
	info, err := s.Head(ctx, key)
	switch {
	case unlessAbsent(err) != nil:
		return err
	case c.Absent() != (err != nil) || c.Version() != "" && info.Version != c.Version():
		return storage.ErrConflict
	}
	return nil
}
