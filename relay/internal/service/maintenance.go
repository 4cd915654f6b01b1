package service

import (
	"context"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/delivery"
)

const (
	// MaintenanceInterval is the time between two rounds of maintenance.
	MaintenanceInterval = 10 * time.Minute
	keysKept            = 7 * 24 * time.Hour // idempotency keys, and attachments of messages that were given up or withdrawn
	hoursKept           = 8 * 24 * time.Hour // counts by the hour

	// PurgeBatch bounds the rows that one transaction removes, because intake waits for it.
	PurgeBatch = 500
)

// maintain runs maintenance every MaintenanceInterval, and after applications are deleted, until ctx is done.
func (s *Service) maintain(ctx context.Context, d *delivery.Delivery) {
	ticker := time.NewTicker(MaintenanceInterval)
	defer ticker.Stop()
	for {
		s.maintainOnce(ctx, d)
		select {
		case <-ticker.C:
		case <-s.Deleted():
		case <-ctx.Done():
			return
		}
	}
}

func (s *Service) maintainOnce(ctx context.Context, d *delivery.Delivery) {
	now := time.Now()
	for _, task := range []struct {
		name string
		do   func() error
	}{
		{"expire messages", func() error { return d.Expire(ctx) }},
		{"remove old messages", func() error { return s.removeOld(ctx, now) }},
		{"remove deleted applications", func() error { return s.purgeApplications(ctx) }},
		{"remove idle clients", func() error { return s.DeleteIdleClients(ctx, now) }},
		{"remove old keys, sessions and attachments", func() error {
			return s.store.Tidy(ctx, now.UnixMilli(), now.Add(-keysKept).UnixMilli(), now.Add(-hoursKept).Unix()/3600)
		}},
	} {
		if err := task.do(); err != nil && ctx.Err() == nil {
			s.log.Error("maintenance failed", zap.String("task", task.name), zap.Error(err))
		}
	}
	d.MakeRooms()
}

// removeOld removes final messages that are past the retention.
func (s *Service) removeOld(ctx context.Context, now time.Time) error {
	if s.o.Retention <= 0 {
		return nil
	}
	cutoff := now.Add(-s.o.Retention).UnixMilli()
	for after := int64(0); ctx.Err() == nil; {
		next, err := s.store.PurgeOld(ctx, after, cutoff, PurgeBatch)
		if err != nil || next == 0 {
			return err
		}
		after = next
	}
	return ctx.Err()
}

// purgeApplications removes the messages of deleted applications, then the applications.
func (s *Service) purgeApplications(ctx context.Context) error {
	for ctx.Err() == nil {
		more, err := s.store.PurgeApplications(ctx, PurgeBatch)
		if err != nil || !more {
			return err
		}
	}
	return ctx.Err()
}
