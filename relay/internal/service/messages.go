package service

import (
	"context"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

const defaultPage = 50

// Message returns one message that v may see.
func (s *Intake) Message(ctx context.Context, v account.Principal, id int64) (post.View, error) {
	m, err := s.store.Message(ctx, id)
	if store.IsMissing(err) {
		return m, refusal.NotFound("message")
	}
	if err != nil {
		return m, refusal.Unreadable(err)
	}
	if m.OwnerID == 0 || !v.Sees(m.ApplicationID, m.OwnerID) { // without an owner the application is deleted
		return post.View{}, refusal.NotFound("message")
	}
	return s.explain(m), nil
}

// explain sets the error of a message that waits only because all sending is paused.
func (s *Intake) explain(m post.View) post.View {
	if (m.State.Sendable() || m.Removing) && m.Error == "" {
		m.Error = s.paused()
	}
	return m
}

// Named returns the message of v's that a key names, or the number if that is a message's; 0 for none.
func (s *Intake) Named(ctx context.Context, v account.Principal, key string, number int64) (int64, error) {
	id, err := s.store.AlertNamed(ctx, v.ApplicationID, key)
	if err != nil {
		return 0, refusal.Unreadable(err)
	}
	if id != 0 || number == 0 {
		return id, nil
	}
	m, err := s.Message(ctx, v, number)
	if refusal.KindOf(err) == refusal.KindNotFound {
		return 0, nil
	}
	return m.ID, err
}

// Messages lists the messages that v may see, newest first.
func (s *Intake) Messages(ctx context.Context, v account.Principal, f Filter) (Page, error) {
	if v.UserID == 0 && v.ApplicationID == 0 {
		return Page{}, refusal.Forbidden("Log in first.")
	}
	limit := min(f.Limit, MaxPage)
	if limit <= 0 {
		limit = defaultPage
	}
	f.Limit, f.Bytes = limit, maxPageBytes
	owner := v.UserID
	if v.Admin {
		owner = 0
	}
	if v.ApplicationID != 0 {
		if f.ApplicationID != 0 && f.ApplicationID != v.ApplicationID {
			return Page{}, refusal.NotFound("application")
		}
		owner, f.ApplicationID = 0, v.ApplicationID
	}
	all, more, err := s.store.Messages(ctx, owner, f)
	if err != nil {
		return Page{}, refusal.Unreadable(err)
	}
	p := Page{Messages: make([]post.View, len(all))}
	for i, m := range all {
		p.Messages[i] = s.explain(m)
	}
	if more {
		p.Next = all[len(all)-1].ID
	}
	return p, nil
}

// Wait blocks until the message is final or waits for a person, d has passed or the relay stops, and returns its current state.
func (s *Intake) Wait(ctx context.Context, v account.Principal, id int64, d time.Duration) (post.View, error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for over := false; ; {
		final, end := s.store.Await(store.Subject(id))
		m, err := s.Message(ctx, v, id)
		if over || err != nil || !m.State.Awaited() {
			end()
			return m, err
		}
		over = s.waitFor(ctx, final, timer.C)
		end()
		if ctx.Err() != nil {
			return m, nil
		}
	}
}

// waitFor blocks until the message may be final. over reports that the caller must stop: the time is up, the relay stops or
// ctx is done.
func (s *Intake) waitFor(ctx context.Context, final <-chan struct{}, timeUp <-chan time.Time) (over bool) {
	select {
	case <-final:
		return false
	case <-timeUp:
	case <-s.stopping:
	case <-ctx.Done():
	}
	return true
}

// Redeliver queues a message again if its state is [post.State.Redeliverable]. For one that is on its way it triggers an
// attempt in its room now, unless the homeserver asked to wait. Any other state is a conflict, and so is a message that is delayed.
func (s *Intake) Redeliver(ctx context.Context, v account.Principal, id int64) (post.View, error) {
	m, err := s.Message(ctx, v, id)
	if err != nil {
		return m, err
	}
	if m.Delayed() {
		return post.View{}, refusal.Conflict("", "The message is delayed: it is sent when its time has come.")
	}
	if m.State.Sendable() {
		s.store.Retry(m.Room)
		return m, nil
	}
	if err := s.accounts.MaySendTo(ctx, m.ApplicationID, m.Room); err != nil {
		return post.View{}, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		ok, err := tx.Requeue(id, time.Now().UnixMilli())
		if err == nil && !ok {
			err = refusal.Conflict("", "Only a message that is "+post.OneOf(post.RedeliverableStates)+" can be redelivered.")
		}
		return err
	})
	if err != nil {
		return post.View{}, refusal.Unwritable(err)
	}
	return s.Message(ctx, v, id)
}

// Cancel withdraws a message: one that waits is cancelled, one that was sent is redacted in its room. If the answer to an
// attempt was lost or is not there yet, the message is cancelled and its event is redacted as soon as it is known to be
// there; until the room has been asked, the message's error says so. One that is withdrawn already is left alone. An application may
// not withdraw a digest of several messages: it means one of them.
func (s *Intake) Cancel(ctx context.Context, v account.Principal, id int64) (post.View, error) {
	if _, err := s.Message(ctx, v, id); err != nil {
		return post.View{}, err
	}
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		if v.ApplicationID != 0 {
			switch m, err := tx.Entry(id); {
			case err != nil:
				return err
			case m.Source == post.SourceDigest && post.DigestsSeveral(m.Title):
				return errDigest
			}
		}
		return tx.Withdraw(id, time.Now().UnixMilli())
	})
	if err != nil {
		return post.View{}, refusal.Unwritable(err)
	}
	return s.Message(ctx, v, id)
}
