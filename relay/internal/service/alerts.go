package service

import (
	"context"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

// Alert returns the alert of a message that v may see; nil without one.
func (s *Intake) Alert(ctx context.Context, v account.Principal, id int64) (*post.Alert, error) {
	if _, err := s.Message(ctx, v, id); err != nil {
		return nil, err
	}
	a, err := s.store.Alert(ctx, id)
	switch {
	case store.IsMissing(err):
		return nil, nil //nolint:nilnil // a message that is no alert
	case err != nil:
		return nil, refusal.Unreadable(err)
	}
	return &a, nil
}

// OpenAlert is an alert that isn't over, with its message.
type OpenAlert struct {
	post.Alert
	Message post.View
}

// Since returns when the alert began.
func (a OpenAlert) Since() time.Time { return post.Time(a.BeganAt) }

// OpenAlerts lists the alerts that v may see and that aren't over, newest first, at most limit. Their messages have IDs below before, unless
// it is 0; next is the before of the next page, 0 at the end.
func (s *Intake) OpenAlerts(ctx context.Context, v account.Principal, before int64, limit int) (all []OpenAlert, next int64, err error) {
	owner := v.UserID
	if v.Admin || v.ApplicationID != 0 {
		owner = 0
	}
	if v.UserID == 0 && v.ApplicationID == 0 {
		return nil, 0, refusal.Forbidden("Log in first.")
	}
	found, err := s.store.OpenAlerts(ctx, owner, v.ApplicationID, before, limit+1)
	if err != nil {
		return nil, 0, refusal.Unreadable(err)
	}
	if len(found) > limit {
		found = found[:limit]
		next = found[limit-1].MessageID
	}
	all = make([]OpenAlert, 0, len(found))
	size := 0
	for i, a := range found {
		if size >= maxPageBytes {
			return all, found[i-1].MessageID, nil
		}
		m, err := s.Message(ctx, v, a.MessageID)
		if err != nil { // removed meanwhile
			continue
		}
		size += m.Size()
		all = append(all, OpenAlert{Alert: a, Message: m})
	}
	return all, next, nil
}

// History lists the edits of a message that v may see and the replies to it, newest first, at most limit. Their IDs are below before, unless
// it is 0; next is the before of the next page, 0 at the end.
func (s *Intake) History(ctx context.Context, v account.Principal, id, before int64, limit int) (all []post.Entry, next int64, err error) {
	if _, err := s.Message(ctx, v, id); err != nil {
		return nil, 0, err
	}
	all, more, err := s.store.History(ctx, id, before, limit, maxPageBytes)
	if err != nil {
		return nil, 0, refusal.Unreadable(err)
	}
	if more {
		next = all[len(all)-1].ID
	}
	return all, next, nil
}

// Acknowledge records that v acknowledged the alert of a message. It is a conflict if the message is not an alert, or if
// the alert is closed or already acknowledged.
func (s *Intake) Acknowledge(ctx context.Context, v account.Principal, id int64) (post.View, error) {
	m, err := s.Message(ctx, v, id)
	if err != nil {
		return m, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		changed, err := acknowledge(tx, id, v.Name)
		if err == nil && !changed {
			err = refusal.Conflict("", "The message has no open alert, or the alert is already acknowledged.")
		}
		return err
	})
	if err != nil {
		return post.View{}, refusal.Unwritable(err)
	}
	return s.Message(ctx, v, id)
}

// StopReminding ends the reminders of a message that v may see.
func (s *Intake) StopReminding(ctx context.Context, v account.Principal, id int64) error {
	a, err := s.Alert(ctx, v, id)
	switch {
	case err != nil:
		return err
	case a == nil:
		return refusal.NotFound("message")
	}
	if err := s.store.Update(ctx, func(tx *store.Tx) error { return stopReminding(tx, id) }); err != nil {
		return refusal.Unwritable(err)
	}
	return nil
}

// roomOf returns the room of a message that its application is about to edit.
func (s *Intake) roomOf(ctx context.Context, app *account.App, id int64) (room int64, err error) {
	m, err := s.store.Message(ctx, id)
	switch {
	case err != nil && !store.IsMissing(err):
		return 0, refusal.Unreadable(err)
	case err != nil || m.ApplicationID != app.ID:
		return 0, refusal.NotFound("message")
	case m.State.Withdrawn() || m.Removing:
		return 0, errWithdrawn
	case m.Source == post.SourceDigest && post.DigestsSeveral(m.Title):
		return 0, errDigest
	}
	return m.Room, s.accounts.MaySendTo(ctx, m.ApplicationID, m.Room)
}

var (
	errWithdrawn = refusal.Conflict("", "The message is withdrawn.")
	errDigest    = refusal.Conflict("", "The message is in a digest with others, which an application can neither edit nor withdraw. A user can withdraw the digest.")
)
