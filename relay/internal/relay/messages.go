package relay

import (
	"context"
	"encoding/json"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/message"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

const (
	defaultPage = 50
	busyFor     = 12 * time.Second // longest wait for an attempt under way
	busyLook    = 20 * time.Millisecond
)

// stored maps the states that are stored to those that are shown.
var stored = map[store.State]State{
	store.Queued: StateQueued, store.RetryWait: StateRetryWait, store.Sent: StateSent, store.Ambiguous: StateAmbiguous,
	store.Dead: StateDead, store.Cancelled: StateCancelled, store.Redacted: StateRedacted,
}

// show makes what is shown of a record.
func (s *Service) show(r store.Record) Message {
	m := Message{
		ID: r.ID, ApplicationID: r.ApplicationID, Title: r.Title, Body: r.Body, ContentType: r.ContentType,
		Priority: r.Priority, Source: r.Source, AcceptedAt: store.Time(r.AcceptedAt), State: stored[r.State], Attempts: r.Attempts,
		NextAttempt: store.Time(r.NextAt), Error: r.Error, ErrorCode: r.Code, EventID: r.EventID,
	}
	if r.Extras != "" {
		m.Extras = json.RawMessage(r.Extras)
	}
	if app := s.App(r.ApplicationID); app != nil {
		m.ApplicationName = app.Row().Name
	}
	if r.State == store.Sent || r.State == store.Redacted {
		m.SentAt = store.Time(r.RestedAt)
	}
	if q := s.d.queue(r.Room); q != nil {
		s.showRoom(&m, q.Room())
	}
	return m
}

// showRoom adds where a message goes and, while it waits, what holds it up.
func (s *Service) showRoom(m *Message, room store.Room) {
	m.RoomID = room.RoomID
	if !room.ToMake() {
		m.Room = room.Address
	}
	if !m.State.Pending() {
		return
	}
	if room.Parked != "" {
		m.State, m.Error = StateBlocked, room.Parked
		return
	}
	if reason, _ := s.d.gate.state(); reason != "" && m.Error == "" {
		m.Error = reason
	}
}

// Message returns one message that v may see.
func (s *Service) Message(ctx context.Context, v Viewer, id int64) (Message, error) {
	r, err := s.record(ctx, v, id)
	if err != nil {
		return Message{}, err
	}
	return s.show(r), nil
}

// record reads a message that v may see.
func (s *Service) record(ctx context.Context, v Viewer, id int64) (store.Record, error) {
	r, err := s.store.Record(ctx, id)
	if store.IsMissing(err) {
		return r, refusal.NotFound("message")
	}
	if err != nil {
		return r, refusal.Unreadable(err)
	}
	app := s.App(r.ApplicationID)
	if app == nil || !v.Sees(app.Row()) {
		return r, refusal.NotFound("message")
	}
	return r, nil
}

// Messages lists the messages that v may see, newest first.
func (s *Service) Messages(ctx context.Context, v Viewer, f MessageFilter) (MessagePage, error) {
	if v.UserID == 0 && v.ApplicationID == 0 {
		return MessagePage{}, &Error{Kind: KindForbidden, Message: "Log in first."}
	}
	limit := min(f.Limit, MaxPage)
	if limit <= 0 {
		limit = defaultPage
	}
	g := store.Filter{
		Application: f.ApplicationID, Text: f.Text, Since: store.Millis(f.Since), Until: store.Millis(f.Until), Before: f.Before, Limit: limit + 1,
	}
	if !v.Admin {
		g.Owner = v.UserID
	}
	if v.ApplicationID != 0 {
		if f.ApplicationID != 0 && f.ApplicationID != v.ApplicationID {
			return MessagePage{}, refusal.NotFound("application")
		}
		g.Owner, g.Application = 0, v.ApplicationID
	}
	g.States, g.Blocked = storedStates(f.States)
	records, err := s.store.Records(ctx, g)
	if err != nil {
		return MessagePage{}, refusal.Unreadable(err)
	}
	return s.page(records, limit), nil
}

func (s *Service) page(records []store.Record, limit int) MessagePage {
	p := MessagePage{Messages: make([]Message, 0, min(limit, len(records)))}
	for i, r := range records {
		if i == limit {
			p.Next = records[i-1].ID
			break
		}
		p.Messages = append(p.Messages, s.show(r))
	}
	return p
}

func storedStates(states []State) (found []store.State, blocked bool) {
	for _, want := range states {
		if want == StateBlocked {
			blocked = true
		}
		for k, v := range stored {
			if v == want {
				found = append(found, k)
			}
		}
	}
	return found, blocked
}

// Wait waits until a message is at rest, at most d, and returns it as it then is.
func (s *Service) Wait(ctx context.Context, v Viewer, id int64, d time.Duration) (Message, error) {
	rested, end := s.d.waiters.add(id)
	defer end()
	m, err := s.Message(ctx, v, id)
	if err != nil || !m.State.Pending() {
		return m, err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-rested:
	case <-timer.C:
	case <-s.d.stopping:
	case <-ctx.Done():
		return m, nil
	}
	return s.Message(ctx, v, id)
}

// Redeliver queues a message again that is dead, ambiguous or cancelled. For one that is still on its way its room
// tries again now, unless the homeserver has told to wait. Any other state is a conflict.
func (s *Service) Redeliver(ctx context.Context, v Viewer, id int64) (Message, error) {
	r, err := s.record(ctx, v, id)
	if err != nil {
		return Message{}, err
	}
	if r.State < store.Sent {
		s.d.queue(r.Room).retry()
		return s.show(r), nil
	}
	var txn string
	if r.State == store.Ambiguous {
		txn = message.NewTxn() // a person has decided: it is sent anew, whatever became of the first
	}
	_, err = s.d.queue(r.Room).change(id, func() (longer int64, err error) {
		return 1, s.store.Update(ctx, func(tx *store.Tx) error {
			ok, err := tx.Requeue(id, time.Now().UnixMilli(), txn, store.Dead, store.Ambiguous, store.Cancelled)
			if err == nil && !ok {
				err = refusal.Conflict("", "Only a message that is dead, ambiguous or cancelled can be delivered again.")
			}
			return err
		})
	})
	if err != nil {
		return Message{}, refusal.Unwritable(err)
	}
	return s.Message(ctx, v, id)
}

// Cancel withdraws a message: one that waits is cancelled, one that was sent is redacted in its room. If the answer
// to an attempt was lost, the room is asked whether the event is there; when it does not tell, the message is cancelled
// and its error says so.
func (s *Service) Cancel(ctx context.Context, v Viewer, id int64) (Message, error) {
	r, err := s.record(ctx, v, id)
	if err != nil {
		return Message{}, err
	}
	q := s.d.queue(r.Room)
	for end := time.Now().Add(busyFor); ; {
		done, err := q.change(id, func() (int64, error) { return s.withdraw(ctx, id) })
		if err != nil {
			return Message{}, refusal.Unwritable(err)
		}
		if done {
			s.settle(ctx, q, id)
			return s.Message(ctx, v, id)
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return Message{}, refusal.Conflict("", "The message is being sent right now.")
		}
		time.Sleep(busyLook)
	}
}

const (
	inDoubt  = "It was withdrawn after an attempt whose answer was lost: it may be in the room."
	settleIn = 5 * time.Second
)

// settle finds out what became of a message that was cancelled in doubt, and removes its event from the room.
func (s *Service) settle(ctx context.Context, q *queue, id int64) {
	r, err := s.store.Record(ctx, id)
	reason, _ := s.d.gate.state()
	if err != nil || r.State != store.Cancelled || r.Error != inDoubt || reason != "" || q.replacedSince(&r.Entry) != "" {
		return // where its room was replaced meanwhile the doubt stays: nothing can be removed from the old one
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleIn)
	defer cancel()
	found, err := s.d.sender.Find(ctx, q.Room().RoomID, r.Txn, store.Time(r.AcceptedAt).Add(-findMargin))
	if err != nil || found.EventID == "" && !found.Complete {
		return
	}
	_, err = q.change(id, func() (longer int64, err error) {
		err = s.store.Update(ctx, func(tx *store.Tx) error {
			if err := tx.Settle(id, time.Now().UnixMilli(), found.EventID); err != nil || found.EventID == "" {
				return err
			}
			_, redacts, err := tx.Withdraw(id, time.Now().UnixMilli(), message.NewTxn(), inDoubt)
			if redacts {
				longer++
			}
			return err
		})
		return longer, err
	})
	if err != nil {
		s.log.Error("cannot note what became of a withdrawn message", zap.Int64("message", id), zap.Error(err))
	}
}

// withdraw returns by how many entries the line is longer then.
func (s *Service) withdraw(ctx context.Context, id int64) (longer int64, err error) {
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		was, redacts, err := tx.Withdraw(id, time.Now().UnixMilli(), message.NewTxn(), inDoubt)
		switch {
		case err != nil:
			return err
		case was == store.Cancelled || was == store.Redacted:
			return refusal.Conflict("", "The message is withdrawn already.")
		case redacts:
			longer++
		}
		if was < store.Sent {
			longer--
		}
		return nil
	})
	return longer, err
}
