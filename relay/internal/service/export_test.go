package service

import (
	"context"
	"time"

	"slipway/relay/internal/post"
	"slipway/relay/internal/store"
)

// Term is term, for a test.
func (s *Service) Term(ctx context.Context) { s.term(ctx) }

// TakeLease takes the lease if it is free.
func (s *Service) TakeLease(ctx context.Context) bool { return s.lease.Take(ctx) }

// MaySend reports whether this relay holds a valid lease.
func (s *Service) MaySend() bool { return s.lease.Valid() }

// WatchOnce checks the applications once, as one who could not look for a while.
func (s *Service) WatchOnce(ctx context.Context, blind time.Duration) error {
	w := &watcher{s: s, looked: time.Now().Add(-blind), late: map[int64]int64{}}
	return w.look(ctx)
}

// StoreEdit stores an edit without asking first whether its message may be edited. It reports whether that was withdrawn.
func (s *Service) StoreEdit(ctx context.Context, e post.Entry) (gone bool, err error) {
	a := &store.Incoming{Entry: e, Relate: edit}
	err = s.store.Insert(ctx, a)
	return a.Gone, err
}
