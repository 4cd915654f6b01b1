package service

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/store"
)

const (
	remindEvery = time.Minute     // how late a reminder or a delayed message may be after a change of the clock
	remindAgain = 5 * time.Second // …and after a failure
)

// remind adds reminders and releases delayed messages when they are due, until ctx is done.
func (s *Service) remind(ctx context.Context) {
	failing := false
	for {
		timed, end := s.store.Await(store.Timed)
		delayed, err := whenDue(ctx, s.store.NextDelayed, s.releaseDelayed)
		reminder, err2 := whenDue(ctx, s.store.NextReminder, s.remindNow)
		wait := min(remindEvery, reminder, delayed)
		if err = errors.Join(err, err2); err != nil && ctx.Err() == nil && !failing {
			s.log.Error("cannot remind of alerts and send delayed messages", zap.Error(err))
		}
		if failing = err != nil; failing {
			wait = remindAgain
		}
		select {
		case <-ctx.Done():
		case <-timed:
		case <-time.After(wait):
		}
		end()
		if ctx.Err() != nil {
			return
		}
	}
}

// whenDue does something if its time has come, and returns how long to wait before asking again.
func whenDue(ctx context.Context, next func(context.Context) (int64, error), do func(context.Context, int64) error) (time.Duration, error) {
	at, err := next(ctx)
	if err != nil || at == 0 {
		return remindEvery, err
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
	return s.store.Lead(ctx, func(tx *store.Tx) (err error) {
		for _, d := range due {
			err = errors.Join(err, addReminder(tx, d.MessageID, now))
		}
		return err
	})
}

// addReminder adds the reminder of an alert, and stores the time of the next one.
func addReminder(tx *store.Tx, message, now int64) error {
	a, m, err := tx.AlertOf(message)
	if store.IsMissing(err) { // removed meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	shown, err := shown(tx, &m, m.Room)
	if err != nil {
		return err
	}
	waiting, err := tx.Reminders(message)
	if err != nil {
		return err
	}
	app, err := tx.Application(m.ApplicationID)
	if err != nil && !store.IsMissing(err) { // without one nothing may be sent
		return err
	}
	may, err := tx.MaySend(app.ID, m.Room)
	if err != nil {
		return err
	}
	escalation := post.Escalation{After: app.EscalateAfter, To: strings.Fields(app.EscalateTo)}
	a, r := post.Remind(a, !shown || !may, m.State.Pending(), len(waiting) > 0, escalation, now)
	switch {
	case r.Send:
		err = insertReminder(tx, r, &m, &app, now)
	case r.Expired:
		err = annotate(tx, &m, a.Unacknowledged(), now)
	}
	if err != nil {
		return err
	}
	return tx.SaveAlert(a)
}

// insertReminder adds a reminder: a reply in the thread of a message, or a copy of it in another room.
func insertReminder(tx *store.Tx, r post.Reminder, m *post.Entry, app *store.Application, now int64) error {
	e := r.Entry(m, now)
	if r.To != "" && !strings.HasPrefix(r.To, "@") {
		room, err := tx.RoomOf(app.OwnerID, r.To)
		if err != nil {
			return err
		}
		may, err := tx.MaySend(app.ID, room)
		if err != nil {
			return err
		}
		if may && room != m.Room {
			e = r.CopyTo(room, m, now)
		}
	}
	return tx.Insert(&e)
}

// annotate gives a message another note.
func annotate(tx *store.Tx, m *post.Entry, note string, now int64) error {
	if m.Note == note {
		return nil
	}
	followUps, err := tx.FollowUps(m.ID)
	if err != nil {
		return err
	}
	e, a := post.Annotate(m, note, followUps, now)
	return saveAmendment(tx, a, &e)
}

// releaseDelayed makes delayed entries that are due ordinary ones, and gives up those whose application may not send to their room any
// more.
func (s *Service) releaseDelayed(ctx context.Context, now int64) error {
	return s.store.Lead(ctx, func(tx *store.Tx) error {
		due, err := tx.DueDelayed(now)
		for _, id := range due {
			err = errors.Join(err, release(tx, id, now))
		}
		return err
	})
}

func release(tx *store.Tx, id, now int64) error {
	e, err := tx.Entry(id)
	if err != nil {
		return err
	}
	may, err := tx.MaySend(e.ApplicationID, e.Room)
	if err != nil {
		return err
	}
	if !may {
		_, err = tx.Step(e, post.Barred{}, now)
		return err
	}
	if e, err = tx.Step(e, post.Due{}, now); err != nil {
		return err
	}
	return beginReminders(tx, &e, now)
}

// beginReminders begins the reminders of an entry that was delayed, if it is the message of an alert that has some.
func beginReminders(tx *store.Tx, e *post.Entry, now int64) error {
	a, _, err := tx.AlertOf(e.ID)
	if store.IsMissing(err) {
		return nil
	}
	if err != nil || !a.Begin(e.QueuedAt, now) {
		return err
	}
	return errors.Join(tx.SaveAlert(a), offerAcknowledgement(tx, e, now))
}

// acknowledge records that by acknowledged the alert of a message and withdraws its waiting reminders. It reports whether
// the alert was open and not yet acknowledged.
func acknowledge(tx *store.Tx, message int64, by string) (changed bool, err error) {
	now := time.Now().UnixMilli()
	a, m, err := tx.AlertOf(message)
	if store.IsMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if a, changed = post.Acknowledge(a, by, now); !changed {
		return false, nil
	}
	return true, errors.Join(annotate(tx, &m, a.Standing(), now), withdrawReminders(tx, message, now), tx.SaveAlert(a))
}

// stopReminding ends the reminders of a message that nobody has acknowledged.
func stopReminding(tx *store.Tx, message int64) error {
	now := time.Now().UnixMilli()
	a, _, err := tx.AlertOf(message)
	if err != nil {
		return err
	}
	return errors.Join(withdrawReminders(tx, message, now), tx.SaveAlert(post.StopReminders(a, now)))
}

func withdrawReminders(tx *store.Tx, message, now int64) error {
	waiting, err := tx.Reminders(message)
	for _, r := range waiting {
		_, failed := tx.Step(r, post.Needless{}, now)
		err = errors.Join(err, failed)
	}
	return err
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
		_, err := acknowledge(tx, id, post.Clean(e.Sender))
		return err
	})
}
