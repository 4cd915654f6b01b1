package relay

import (
	"context"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/alert"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/message"
	"slipway/relay/internal/store"
)

// lookForReminders is how long a reminder of an alert that another relay has accepted may be late.
const lookForReminders = 5 * time.Second

// remind adds reminders when they are due, until ctx is done.
func (s *Service) remind(ctx context.Context) {
	failing := false
	for {
		wait := lookForReminders
		next, err := s.store.NextReminder(ctx)
		if due := time.Until(store.Time(next)); err == nil && next != 0 {
			wait = min(wait, max(due, 0))
			if due <= 0 {
				wait = time.Second
				err = s.store.Remind(ctx, time.Now().UnixMilli())
			}
		}
		if err != nil && ctx.Err() == nil && !failing {
			s.log.Error("cannot remind of alerts", zap.Error(err))
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// acknowledged notes that a member of a room has acknowledged an alert.
func (s *Service) acknowledged(ctx context.Context, e matrix.Reaction) error {
	if !alert.Acknowledges(e.Key) {
		return nil
	}
	if err := s.store.Settle(ctx); err != nil { // the event may just have been sent
		return err
	}
	id, err := s.store.OpenAlertOf(ctx, e.Room, message.Clean(e.Event))
	if err != nil || id == 0 {
		return err
	}
	return s.store.Lead(ctx, func(tx *store.Tx) error {
		_, err := tx.Acknowledge(id, message.Clean(e.Sender), time.Now().UnixMilli())
		return err
	})
}
