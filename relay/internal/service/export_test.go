package service

import (
	"context"
	"time"
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
