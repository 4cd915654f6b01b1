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
				err = s.remindNow(ctx, time.Now().UnixMilli())
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

// askWithin bounds the look at the reactions to an alert.
const askWithin = 10 * time.Second

// remindNow adds the reminders that are due, unless somebody has reacted to the message unheard: while no relay ran, sync may
// have left that out.
func (s *Service) remindNow(ctx context.Context, now int64) error {
	due, err := s.store.DueAlerts(ctx, now)
	if err != nil {
		return err
	}
	for _, d := range due {
		if s.o.Bot == nil || d.EventID == "" || s.Paused() != "" {
			continue
		}
		ask, cancel := context.WithTimeout(ctx, askWithin)
		reactions, err := s.o.Bot.Reactions(ask, d.RoomID, d.EventID)
		cancel()
		if err != nil {
			s.log.Debug("cannot read the reactions to an alert", zap.Int64("message", d.MessageID), zap.Error(err))
		}
		for _, r := range reactions {
			if err := s.acknowledged(ctx, r); err != nil {
				return err
			}
		}
	}
	return s.store.Remind(ctx, now)
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
