package service

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/store"
)

const (
	remindEvery = 5 * time.Second // how late a reminder or a delayed message may be that another relay has accepted
	remindAgain = time.Minute     // …and how late after a change of the clock without another relay
)

// remind adds reminders and releases delayed messages when they are due, until ctx is done.
func (s *Service) remind(ctx context.Context) {
	failing, every := false, remindAgain
	if s.store.Shared() {
		every = remindEvery
	}
	for {
		delayed, err := whenDue(ctx, s.store.NextDelayed, s.store.ReleaseDelayed)
		reminder, err2 := whenDue(ctx, s.store.NextReminder, s.remindNow)
		wait := min(every, reminder, delayed)
		if err = errors.Join(err, err2); err != nil && ctx.Err() == nil && !failing {
			s.log.Error("cannot remind of alerts and send delayed messages", zap.Error(err))
		}
		if failing = err != nil; failing {
			wait = remindEvery
		}
		select {
		case <-ctx.Done():
			return
		case <-s.store.Timed():
		case <-time.After(wait):
		}
	}
}

// whenDue does something if its time has come, and returns how long to wait before asking again.
func whenDue(ctx context.Context, next func(context.Context) (int64, error), do func(context.Context, int64) error) (time.Duration, error) {
	at, err := next(ctx)
	if err != nil || at == 0 {
		return remindAgain, err
	}
	if wait := time.Until(post.Time(at)); wait > 0 {
		return wait, nil
	}
	return time.Second, do(ctx, time.Now().UnixMilli())
}

// askWithin bounds the look at the reactions to all alerts that are due.
const askWithin = 10 * time.Second

// remindNow adds the reminders that are due, unless somebody has reacted to the message unheard: while no relay ran, sync may
// have left that out.
func (s *Service) remindNow(ctx context.Context, now int64) error {
	due, err := s.store.DueAlerts(ctx, now)
	if err != nil {
		return err
	}
	ask, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	for _, d := range due {
		if ask.Err() != nil || s.o.Bot == nil || d.EventID == "" || s.Paused() != "" {
			continue
		}
		reactions, err := s.o.Bot.Reactions(ask, d.RoomID, d.EventID)
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

// acknowledged records that a member of a room has acknowledged an alert.
func (s *Service) acknowledged(ctx context.Context, e matrix.Reaction) error {
	if !post.Acknowledges(e.Key) {
		return nil
	}
	if err := s.store.Settle(ctx); err != nil { // the event may just have been sent
		return err
	}
	id, err := s.store.OpenAlertOf(ctx, e.Room, post.Clean(e.Event))
	if err != nil || id == 0 {
		return err
	}
	return s.store.Lead(ctx, func(tx *store.Tx) error {
		_, err := tx.Acknowledge(id, post.Clean(e.Sender), time.Now().UnixMilli())
		return err
	})
}
