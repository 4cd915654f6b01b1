package relay

import (
	"context"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/store"
)

const (
	houseEvery    = 10 * time.Minute
	keysKept      = 7 * 24 * time.Hour // idempotency keys
	hoursKept     = 8 * 24 * time.Hour // counts by the hour
	purgeBatch    = 500                // rows removed in one transaction, so that accepting never waits long
	encryptedHint = "use a room without encryption for this application"
)

const encryptedReason = "The room is encrypted and this relay cannot encrypt yet: " + encryptedHint + "."

// keepHouse removes what is too old, again and again until ctx is done.
func (s *Service) keepHouse(ctx context.Context) {
	ticker := time.NewTicker(houseEvery)
	defer ticker.Stop()
	for {
		s.clean(ctx)
		select {
		case <-ticker.C:
		case <-s.Deleted():
		case <-ctx.Done():
			return
		}
	}
}

func (s *Service) clean(ctx context.Context) {
	now := time.Now()
	chores := []struct {
		name string
		do   func() error
	}{
		{"expire messages", func() error { return s.expireWaiting(ctx, now) }},
		{"remove old messages", func() error { return s.removeOld(ctx, now) }},
		{"remove deleted applications", func() error { return s.purgeApplications(ctx) }},
		{"remove old keys and sessions", func() error {
			return s.store.Tidy(ctx, now.UnixMilli(), now.Add(-keysKept).UnixMilli(), now.Add(-hoursKept).Unix()/3600)
		}},
		{"make rooms", func() error {
			if reason, _ := s.d.gate.state(); reason == "" {
				s.d.makeRooms()
			}
			return nil
		}},
	}
	for _, c := range chores {
		if err := c.do(); err != nil && ctx.Err() == nil {
			s.log.Error("housekeeping failed", zap.String("chore", c.name), zap.Error(err))
		}
	}
}

// expireWaiting gives up what has waited too long in rooms where nothing is tried: parked ones, and all of them while
// sending pauses. Elsewhere the worker does it.
func (s *Service) expireWaiting(ctx context.Context, now time.Time) error {
	cutoff := now.Add(-s.o.Delivery.MaxAge).UnixMilli()
	for _, q := range s.d.all() {
		q.mu.Lock()
		old := q.waiting > 0 && q.oldest < cutoff && q.inFlight == 0
		room := q.room
		q.mu.Unlock()
		if !old {
			continue
		}
		reason := room.Parked
		if reason == "" {
			reason, _ = s.d.gate.state()
		}
		if reason == "" {
			reason = q.lastError()
		}
		if err := s.expireRoom(ctx, q, cutoff, reason); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) expireRoom(ctx context.Context, q *queue, cutoff int64, last string) error {
	reason := tooOld(s.o.Delivery.MaxAge, last)
	x := store.Expiry{
		Room: q.id, Cutoff: cutoff, Now: time.Now().UnixMilli(), Reason: reason, NoFile: noFile(reason), NotRemoved: notRemoved(reason),
	}
	_, err := q.change(0, func() (int64, error) {
		done, err := s.store.Expire(ctx, x)
		if err != nil {
			return 0, err
		}
		s.gaveUp(done.Dead)
		if done.Entries > 0 {
			s.log.Warn("what waited too long was given up", zap.Int64("room", q.id), zap.Int64("entries", done.Entries), zap.String("reason", reason))
		}
		q.mu.Lock()
		q.oldest = done.Oldest
		q.mu.Unlock()
		return -done.Entries, nil
	})
	return err
}

// gaveUp counts messages that were given up, by application.
func (s *Service) gaveUp(dead map[int64]int64) {
	for id, n := range dead {
		s.o.Metrics.dead.WithLabelValues("age").Add(float64(n))
		s.CountDead(id, n)
	}
}

// removeOld removes messages at rest that are past the retention.
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
	var apps []store.Application
	if err := s.store.Read(ctx).Where("deleted_at > 0").Find(&apps).Error; err != nil {
		return err
	}
	for _, a := range apps {
		for more := true; more && ctx.Err() == nil; {
			var err error
			if more, err = s.purgeSome(ctx, a); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// purgeSome removes a batch. The lines that lose entries are read again.
func (s *Service) purgeSome(ctx context.Context, a store.Application) (more bool, err error) {
	rooms, more, err := s.store.PurgeApplication(ctx, a.ID, purgeBatch)
	for room, n := range rooms {
		if q := s.d.queue(room); q != nil {
			q.mu.Lock()
			q.lengthen(-n)
			q.reload()
			q.start()
			q.mu.Unlock()
		}
	}
	return more, err
}
