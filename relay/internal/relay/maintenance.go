package relay

import (
	"context"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/delivery"
)

const (
	maintainEvery = 10 * time.Minute
	keysKept      = 7 * 24 * time.Hour // idempotency keys
	hoursKept     = 8 * 24 * time.Hour // counts by the hour
	purgeBatch    = 500                // rows removed in one transaction, so that accepting never waits long
)

// maintain removes what is too old, again and again until ctx is done.
func (s *Service) maintain(ctx context.Context, d *delivery.Delivery) {
	ticker := time.NewTicker(maintainEvery)
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
		{"remove old keys and sessions", func() error {
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
		next, err := s.store.PurgeOld(ctx, after, cutoff, purgeBatch)
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
		more, err := s.store.PurgeApplications(ctx, purgeBatch)
		if err != nil || !more {
			return err
		}
	}
	return ctx.Err()
}
