package service

import (
	"context"

	"slipway/relay/internal/account"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

// Inbox serves the readers. Its methods are safe for concurrent use. Errors that a client may read are [*refusal.Error].
type Inbox struct {
	store    *store.Store
	accounts *account.Accounts
	hub      hub
}

// newInbox returns the inbox of a store. Streams get nothing before [Inbox.Follow] runs.
func newInbox(s *store.Store, a *account.Accounts) *Inbox {
	return &Inbox{store: s, accounts: a, hub: hub{moved: make(chan struct{}), joined: make(chan struct{}, 1)}}
}

// MaxReaderPage is the largest page.
const MaxReaderPage = 200

// maxPageBytes bounds the text of a page of any list, which ends early rather than grow beyond it by more than one message.
const maxPageBytes = 4 << 20

// ReaderPage is a page of messages, newest first.
type ReaderPage struct {
	Messages []post.View
	More     bool // older ones follow
}

// reading selects what v may read: a user or a client gets what the user's applications sent and the user has not deleted.
func reading(v account.Principal) (r store.Reading, err error) {
	switch {
	case v.ApplicationID != 0:
		r.Application = v.ApplicationID
	case v.UserID == 0:
		return r, refusal.Forbidden("Log in first.")
	case v.ClientID != 0 || !v.Admin:
		r.Owner, r.HiddenFrom = v.UserID, v.UserID
	}
	return r, nil
}

// ReadMessages returns the newest messages that v may read, with ids below before if that is not 0, and of one application if
// that is not 0.
func (s *Inbox) ReadMessages(ctx context.Context, v account.Principal, application, before int64, limit int) (ReaderPage, error) {
	r, err := reading(v)
	if err != nil {
		return ReaderPage{}, err
	}
	if application != 0 {
		if _, err := s.accounts.AppFor(ctx, v, application); err != nil {
			return ReaderPage{}, err
		}
		r.Application = application
	}
	if r.Through, err = s.store.Horizon(ctx); err != nil {
		return ReaderPage{}, refusal.Unreadable(err)
	}
	if before > 0 {
		r.Through = min(r.Through, before-1)
	}
	if r.Through == 0 {
		return ReaderPage{}, nil
	}
	r.Limit, r.Bytes = min(limit, MaxReaderPage), maxPageBytes
	all, more, err := s.store.Read(ctx, r)
	if err != nil {
		return ReaderPage{}, refusal.Unreadable(err)
	}
	return ReaderPage{all, more}, nil
}

// HideMessage leaves a message out of what v's user and clients read. Nothing else changes.
func (s *Inbox) HideMessage(ctx context.Context, v account.Principal, id int64) error {
	r, err := reading(v)
	if err != nil {
		return err
	}
	r.ID, r.Limit = id, 1
	found, _, err := s.store.Read(ctx, r)
	if err != nil {
		return refusal.Unreadable(err)
	}
	if len(found) == 0 {
		return refusal.NotFound("message")
	}
	return refusal.Unwritable(s.store.Update(ctx, func(tx *store.Tx) error { return tx.Hide(v.UserID, id) }))
}

// HideMessages is HideMessage for all messages of an application up to now; 0 stands for all applications.
func (s *Inbox) HideMessages(ctx context.Context, v account.Principal, application int64) error {
	if application != 0 {
		if _, err := s.accounts.AppFor(ctx, v, application); err != nil {
			return err
		}
	}
	through, err := s.store.Horizon(ctx)
	if err != nil {
		return refusal.Unreadable(err)
	}
	return refusal.Unwritable(s.store.Update(ctx, func(tx *store.Tx) error { return tx.HideThrough(v.UserID, application, through) }))
}
