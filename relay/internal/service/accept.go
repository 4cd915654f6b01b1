package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
	"slipway/shared/plural"
	"slipway/shared/tracing"
)

// Accept checks a message and commits it to the outbox. When it returns without error the message is durable and
// will be delivered; the homeserver is never touched here.
func (s *Intake) Accept(ctx context.Context, r post.Draft) (post.Accepted, error) {
	app, err := s.Sender(ctx, r.Token)
	if err != nil {
		return post.Accepted{}, err
	}
	return first(s.AcceptAll(ctx, app, r))
}

// AcceptAll accepts several messages of an application, found by [Intake.Sender], in one transaction. If an idempotency key
// was used for another message, the error reports the conflict and the results still list all messages, because the others are
// stored.
func (s *Intake) AcceptAll(ctx context.Context, app *account.App, all ...post.Draft) ([]post.Accepted, error) {
	accepted, err := s.commit(ctx, app, all, time.Now())
	return accepted, s.counted(err)
}

// AcceptFor is Accept for an application that v manages, without its token: r.Token is not looked at.
func (s *Intake) AcceptFor(ctx context.Context, v account.Principal, id int64, r post.Draft) (post.Accepted, error) {
	app, err := s.accounts.AppFor(ctx, v, id)
	if err != nil {
		return post.Accepted{}, s.counted(err)
	}
	return first(s.AcceptAll(ctx, app, r))
}

func first(all []post.Accepted, err error) (post.Accepted, error) {
	if err != nil {
		return post.Accepted{}, err
	}
	return all[0], nil
}

// counted counts err as a refusal and returns it.
func (s *Intake) counted(err error) error {
	if err != nil {
		s.metrics.refused.WithLabelValues(string(refusal.KindOf(err))).Inc()
	}
	return err
}

// reachWithin bounds all that an accepted message asks the database before its commit, which has a bound of its own.
const reachWithin = 10 * time.Second

func (s *Intake) commit(ctx context.Context, app *account.App, all []post.Draft, now time.Time) ([]post.Accepted, error) {
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	app, err := s.accounts.Current(ctx, app) // the body may have taken long
	if err != nil {
		return nil, err
	}
	stored, err := s.prepare(ctx, app, all, now)
	if err != nil {
		return nil, err
	}
	if err := s.admit(ctx, app, len(all), now); err != nil {
		return nil, err
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) { // what failed above didn't matter
		return nil, notStored(ctx, ctx.Err())
	}
	committing, span := tracing.Span(ctx, "commit")
	err = s.store.Insert(committing, stored...)
	tracing.End(span, err)
	if err != nil {
		s.giveBack(ctx, app, len(all))
		return nil, notStored(ctx, err)
	}
	s.metrics.commit.Observe(time.Since(now).Seconds())
	return s.results(ctx, app, stored)
}

// prepare validates requests and converts them for the store.
func (s *Intake) prepare(ctx context.Context, app *account.App, all []post.Draft, now time.Time) ([]*store.Incoming, error) {
	if err := app.MaySend(); err != nil {
		return nil, err
	}
	row, parent := &app.Application, tracing.Parent(ctx)
	stored := make([]*store.Incoming, len(all))
	for i, r := range all {
		hideTokens(app, &r)
		e, err := s.entry(row, r, now)
		if err != nil {
			return nil, err
		}
		hideJoined(&e.Content, r.Token)
		e.Trace = parent
		stored[i] = &store.Incoming{Entry: e, Key: keyOf(r, &e), Relate: relate(row, r, &e)}
		if isQuiet(row, &e) {
			stored[i].Entry.Mentions = format.Nobody
		}
		if r.Edits != 0 {
			if stored[i].Entry.Room, err = s.roomOf(ctx, app, r.Edits); err != nil {
				return nil, err
			}
		}
	}
	return stored, nil
}

// results returns the results for messages that were stored now or earlier.
func (s *Intake) results(ctx context.Context, app *account.App, stored []*store.Incoming) (all []post.Accepted, err error) {
	for _, a := range stored {
		if a.Skipped {
			s.giveBack(ctx, app, 1)
			continue
		}
		e := &a.Entry
		out := post.Accepted{Replay: a.Replay, Conflict: a.Conflict, View: post.View{Entry: *e}}
		out.ID, out.Target, out.Note = e.MessageID(), 0, "" // as it was posted
		switch {
		case a.Conflict:
			err = refusal.Conflict("Idempotency-Key", "This idempotency key was used for another message: give that one a key of its own.")
			s.giveBack(ctx, app, 1)
		case a.Gone:
			err = errWithdrawn
			s.giveBack(ctx, app, 1)
		case a.Replay:
			s.giveBack(ctx, app, 1) // a sender that starts a long series again shall get to its end
			s.present(ctx, &out)
		default:
			s.metrics.accepted.Inc()
		}
		all = append(all, out)
	}
	return all, err
}

// present adds the current state of a message that was accepted earlier.
func (s *Intake) present(ctx context.Context, a *post.Accepted) {
	m, err := s.store.Message(ctx, a.ID)
	switch {
	case err == nil:
		a.State, a.EventID, a.Error = m.State, m.EventID, m.Error
	case store.IsMissing(err):
		a.State = post.StateForgotten
	}
}

// Sender returns the application of a token that is about to send. A refusal counts as one of a message.
func (s *Intake) Sender(ctx context.Context, token string) (*account.App, error) {
	app, err := s.accounts.ByToken(ctx, token)
	return app, s.counted(err)
}

// admit keeps the application within its rate and the outbox within its bounds.
func (s *Intake) admit(ctx context.Context, app *account.App, n int, now time.Time) error {
	if err := s.withinRate(ctx, app, n, now); err != nil {
		return err
	}
	text, limit := "", s.limits().MaxWaiting
	switch waiting, err := s.store.Waiting(ctx); {
	case err != nil: // storing the message will tell
	case waiting >= limit:
		text = "Too many messages wait for delivery."
	case exceeds(waiting, limit, func() (int64, error) { return s.store.WaitingOf(ctx, app.ID) }):
		text = "Too many messages of this application wait for delivery."
	case s.ownerExceeds(ctx, waiting, limit, app.ID, func(id int64) (int64, error) { return s.store.WaitingOf(ctx, id) }):
		text = "Too many messages of the applications of this owner wait for delivery."
	}
	if text == "" {
		return nil
	}
	s.giveBack(ctx, app, n)
	return &refusal.Error{Kind: refusal.KindUnavailable, Message: text, RetryAfter: time.Minute}
}

// exceeds reports whether an application has its share of what all have together: it may take as much as is left free then, so that one
// alone takes half, and there is always something left for another.
func exceeds(taken, limit int64, own func() (int64, error)) bool {
	free := limit - taken
	if taken < free {
		return false
	}
	n, err := own()
	return err == nil && n >= max(free, 1)
}

// ownerExceeds reports whether the applications of an application's owner have seven eighths of what all have together: the rest is for
// other owners, if there are any.
func (s *Intake) ownerExceeds(ctx context.Context, taken, limit, application int64, of func(application int64) (int64, error)) bool {
	most := limit - limit/8
	if taken < most {
		return false
	}
	all, others, err := s.store.Siblings(ctx, application)
	if err != nil || !others {
		return false
	}
	own := int64(0)
	for _, id := range all {
		n, err := of(id)
		if err != nil {
			return false
		}
		own += n
	}
	return own >= most
}

// Full reports whether nothing is accepted because limits.waiting messages wait.
func (s *Intake) Full(ctx context.Context) bool {
	waiting, err := s.store.Waiting(ctx)
	return err == nil && waiting >= s.limits().MaxWaiting
}

func (s *Intake) withinRate(ctx context.Context, app *account.App, n int, now time.Time) error {
	rate, burst := s.rate(app)
	if wait := s.accounts.Admit(ctx, app, n, now, rate, burst); wait > 0 {
		return &refusal.Error{
			Kind: refusal.KindRateLimited, Message: fmt.Sprintf("This application may send %s a minute.", plural.Of(rate, "message")), RetryAfter: wait,
		}
	}
	return nil
}

// rate is how many messages an application may send a minute, and at once.
func (s *Intake) rate(app *account.App) (rate, burst int) {
	if rate = app.RateLimit; rate != 0 {
		return rate, 0
	}
	limits := s.limits()
	return limits.RatePerMinute, limits.Burst
}

// giveBack refunds the rate of n messages.
func (s *Intake) giveBack(ctx context.Context, app *account.App, n int) {
	rate, _ := s.rate(app)
	s.accounts.GiveBack(ctx, app, n, rate)
}

// notStored is the answer when a message could not be committed.
func notStored(ctx context.Context, err error) error {
	text := "The message could not be stored."
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		text = "The message was not stored in time."
	}
	return &refusal.Error{Kind: refusal.KindUnavailable, Message: text, RetryAfter: refusal.RetryAfter, Err: err}
}
